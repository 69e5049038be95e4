from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.plain import run_plain
from vibe.shell.sandbox.confinement import Place, remove_abandoned_placeholders
from vibe.shell.sandbox.records import records_of

FOLDERS = (".vibe", ".agents")
WORKTREE_SETTINGS = "git init -q . && git config extensions.worktreeConfig true"
HOLD = """
import sys
from pathlib import Path
from vibe.shell.sandbox.settings import SandboxConfig
from vibe.shell.sandbox.confinement import Confinement, Place
root = Path(sys.argv[1])
guard = Confinement(SandboxConfig(), {}, root.parent / "home").guard(Place(roots=(root,)))
print("held", flush=True)
sys.stdin.read()
"""


def holder(root: Path) -> subprocess.Popen[bytes]:
    """Start a process that is in the middle of a command."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def killed_at(root: Path) -> None:
    with holder(root) as process:
        process.kill()


def standing(root: Path) -> list[str]:
    return [name for name in FOLDERS if (root / name).exists()]


def run_in(cell: Cell, line: str, *, meanwhile: str) -> tuple[int, str]:
    """Run a line in bubblewrap. ``meanwhile`` runs outside, once everything is prepared."""
    sandbox, place = cell.confinement.choice().sandbox, Place(roots=(cell.root,))
    assert sandbox is not None
    policy = cell.confinement.policy(place, cell.confinement.guard(place).control)
    confined = sandbox.wrap(["bash", "-c", line], cell.environ, policy)
    run_plain(meanwhile, cell.root, cell.environ)
    argv, environ = confined.argv, confined.environ
    ended = subprocess.run(argv, cwd=cell.root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("other", ["of this process", "of another"])
def test_the_end_of_one_command_takes_nothing_from_another(bubblewrap: Cell, other: str) -> None:
    confinement, place = bubblewrap.confinement, Place(roots=(bubblewrap.root,))
    if other == "of this process":
        first = confinement.guard(place)
        second = confinement.guard(place)
        first.end()
    else:
        with holder(bubblewrap.root) as process:
            second = confinement.guard(place)
            process.communicate()

    line = "! mkdir .vibe 2>/dev/null && ! touch .vibe/config.toml 2>/dev/null"
    ended = run_in(bubblewrap, line, meanwhile=":")

    assert ended == (0, "")
    assert second.end() == ""
    assert standing(bubblewrap.root) == []


def test_the_next_command_takes_away_what_a_killed_run_left(bubblewrap: Cell) -> None:
    killed_at(bubblewrap.root)
    assert standing(bubblewrap.root) == [*FOLDERS]

    anyio.run(bubblewrap.run, ":")

    assert (standing(bubblewrap.root), bubblewrap.aside) == ([], "")


def test_what_a_killed_run_left_is_found_and_taken_away(bubblewrap: Cell) -> None:
    run_plain(WORKTREE_SETTINGS, bubblewrap.root, bubblewrap.environ)
    killed_at(bubblewrap.root)
    settings = bubblewrap.root / ".git" / "config.worktree"
    assert settings.exists()
    status = ["git", "status", "--porcelain"]
    assert subprocess.check_output(status, cwd=bubblewrap.root, env=bubblewrap.environ) == b""

    remove_abandoned_placeholders(bubblewrap.root)

    assert (standing(bubblewrap.root), settings.exists()) == ([], False)


def test_what_a_running_command_holds_stays(bubblewrap: Cell) -> None:
    with holder(bubblewrap.root) as process:
        remove_abandoned_placeholders(bubblewrap.root)
        assert standing(bubblewrap.root) == [*FOLDERS]
        process.communicate()
    assert standing(bubblewrap.root) == []


async def test_while_somebody_is_at_work_nothing_is_made_anew_for_the_next_command(bubblewrap: Cell) -> None:
    def there() -> list[int]:
        records = records_of(bubblewrap.confinement.vibe_home)
        made = [*(bubblewrap.root / name for name in FOLDERS), *records.iterdir()]
        return [path.stat().st_ino for path in made]

    async with bubblewrap.confinement.at_work():
        await bubblewrap.run(":")
        before = await anyio.to_thread.run_sync(there)
        refused = await bubblewrap.run("mkdir .vibe/tools || echo x > AGENTS.md")
        said = bubblewrap.aside
        after = await anyio.to_thread.run_sync(there)

    assert (len(before), before) == (3, after)
    assert "Read-only file system" in refused.stderr
    assert "AGENTS.md decides what runs later" in said
    assert standing(bubblewrap.root) == []
    assert not [*records_of(bubblewrap.confinement.vibe_home).iterdir()]


async def test_what_a_user_puts_in_or_takes_away_meanwhile_is_heeded(bubblewrap: Cell) -> None:
    async with bubblewrap.confinement.at_work():
        await bubblewrap.run(":")
        (bubblewrap.root / ".vibe" / "config.toml").write_text("mine")
        (bubblewrap.root / ".agents").rmdir()
        refused = await bubblewrap.run("rm .vibe/config.toml; mkdir .agents/skills; ls -d .agents")

    assert (refused.stdout, refused.stderr.count("Read-only file system")) == (".agents\n", 2)
    assert (bubblewrap.root / ".vibe" / "config.toml").read_text() == "mine"
    assert standing(bubblewrap.root) == [".vibe"]


async def test_a_guard_ends_at_once_only_where_there_is_nothing_to_do(bubblewrap: Cell) -> None:
    place, guard = Place(roots=(bubblewrap.root,)), bubblewrap.confinement.guard
    alone = await anyio.to_thread.run_sync(guard, place)
    async with bubblewrap.confinement.at_work():
        same, changed, other = [await anyio.to_thread.run_sync(guard, place) for _ in range(3)]
        assert same.end_at_once()
        (bubblewrap.root / "AGENTS.md").write_text("evil")
        assert not changed.end_at_once()
        (bubblewrap.root / "AGENTS.md").rename(bubblewrap.root / "AGENTS.override.md")
        assert not other.end_at_once()
        for one in (changed, other):
            await anyio.to_thread.run_sync(one.end)

    assert not alone.end_at_once()
    assert await anyio.to_thread.run_sync(alone.end) == ""
    assert standing(bubblewrap.root) == []


async def test_a_command_in_the_background_keeps_what_it_needs_to_its_end(bubblewrap: Cell) -> None:
    place = Place(roots=(bubblewrap.root,))
    async with bubblewrap.confinement.at_work():
        guard = await anyio.to_thread.run_sync(bubblewrap.confinement.guard, place)

    assert standing(bubblewrap.root) == [*FOLDERS]
    assert await anyio.to_thread.run_sync(guard.end) == ""
    assert standing(bubblewrap.root) == []


def test_an_empty_folder_of_the_user_stays(bubblewrap: Cell) -> None:
    run_plain(WORKTREE_SETTINGS, bubblewrap.root, bubblewrap.environ)
    settings = bubblewrap.root / ".git" / "config.worktree"
    (bubblewrap.root / ".vibe").mkdir()
    settings.touch()
    killed_at(bubblewrap.root)

    remove_abandoned_placeholders(bubblewrap.root)
    anyio.run(bubblewrap.run, ":")

    assert (standing(bubblewrap.root), settings.exists()) == ([".vibe"], True)


def test_what_the_user_put_into_one_is_the_users(bubblewrap: Cell) -> None:
    killed_at(bubblewrap.root)
    mine = bubblewrap.root / ".vibe" / "config.toml"
    mine.write_text("mine")

    remove_abandoned_placeholders(bubblewrap.root)
    mine.unlink()  # even when empty, it is the user's
    remove_abandoned_placeholders(bubblewrap.root)

    assert standing(bubblewrap.root) == [".vibe"]


def test_a_repository_without_a_folder_for_hooks_gets_one_that_no_command_is_blamed_for(cell: Cell) -> None:
    run_plain("git init -q . && rm -r .git/hooks", cell.root, cell.environ)
    before = {path.name for path in (cell.root / ".git").iterdir()}

    anyio.run(cell.run, "echo evil > .git/hooks/pre-commit")

    assert "hooks decides" not in cell.aside
    assert {path.name for path in (cell.root / ".git").iterdir()} - before == {"hooks"}
    assert not [*(cell.root / ".git" / "hooks").iterdir()]


WORKTREE = "git init -q . && git commit -q --allow-empty -m one && git worktree add -q ../one"


def test_a_worktree_that_is_removed_just_then_fails_no_command(bubblewrap: Cell) -> None:
    run_plain(WORKTREE, bubblewrap.root, bubblewrap.environ)

    ended = run_in(bubblewrap, "git log -1 > /dev/null", meanwhile="git worktree remove ../one")

    assert ended == (0, "")
    assert not (bubblewrap.root / ".git" / "worktrees").exists()


def test_a_worktree_that_is_made_just_then_stays_whole(cell: Cell) -> None:
    run_plain(f"{WORKTREE} && mkdir ../held && mv .git/worktrees/one/* ../held", cell.root, cell.environ)
    guard = cell.confinement.guard(Place(roots=(cell.root,)))

    run_plain("mv ../held/* .git/worktrees/one", cell.root, cell.environ)

    assert guard.end() == ""
    run_plain("git -C ../one status", cell.root, cell.environ)
