from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.integration.core.sandbox.conftest import Cell
from tests.integration.core.sandbox.plain import run_plain
from vibe.core.sandbox.confinement import Place, remove_abandoned_placeholders
from vibe.core.sandbox.records import records_of

FOLDERS = (".vibe", ".agents")
WORKTREE_SETTINGS = "git init -q . && git config extensions.worktreeConfig true"
HOLD = """
import sys
from pathlib import Path
from vibe.core.config.models import SandboxConfig
from vibe.core.sandbox.confinement import Confinement, Place
root = Path(sys.argv[1])
guard = Confinement(SandboxConfig(), {}, root.parent / "home").guard(Place(roots=(root,)))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def bubblewrapped(cell: Cell) -> Cell:
    if cell.backend != "bubblewrap":
        pytest.skip("Landlock needs no placeholders")
    return cell


def holder(root: Path) -> subprocess.Popen[bytes]:
    """A process in the middle of a command."""
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
    """Run a line in bubblewrap; after all is prepared for it, ``meanwhile`` happens outside."""
    confined = cell.confinement.confine(["bash", "-c", line], cell.environ, Place(roots=(cell.root,)))
    assert confined is not None
    run_plain(meanwhile, cell.root, cell.environ)
    argv, environ = confined.argv, confined.environ
    ended = subprocess.run(argv, cwd=cell.root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("other", ["of this process", "of another"])
def test_the_end_of_one_command_takes_nothing_from_another(bubblewrapped: Cell, other: str) -> None:
    confinement, place = bubblewrapped.confinement, Place(roots=(bubblewrapped.root,))
    if other == "of this process":
        first = confinement.guard(place)
        second = confinement.guard(place)
        first.end()
    else:
        with holder(bubblewrapped.root) as process:
            second = confinement.guard(place)
            process.communicate()

    line = "! mkdir .vibe 2>/dev/null && ! touch .vibe/config.toml 2>/dev/null"
    ended = run_in(bubblewrapped, line, meanwhile=":")

    assert ended == (0, "")
    assert second.end() == ""
    assert standing(bubblewrapped.root) == []


def test_the_next_command_takes_away_what_a_killed_run_left(bubblewrapped: Cell) -> None:
    killed_at(bubblewrapped.root)
    assert standing(bubblewrapped.root) == [*FOLDERS]

    anyio.run(bubblewrapped.run, ":")

    assert (standing(bubblewrapped.root), bubblewrapped.aside) == ([], "")


def test_what_a_killed_run_left_is_found_and_taken_away(bubblewrapped: Cell) -> None:
    run_plain(WORKTREE_SETTINGS, bubblewrapped.root, bubblewrapped.environ)
    killed_at(bubblewrapped.root)
    settings = bubblewrapped.root / ".git" / "config.worktree"
    assert settings.exists()
    status = ["git", "status", "--porcelain"]
    assert subprocess.check_output(status, cwd=bubblewrapped.root, env=bubblewrapped.environ) == b""

    remove_abandoned_placeholders(bubblewrapped.root)

    assert (standing(bubblewrapped.root), settings.exists()) == ([], False)


def test_what_a_running_command_holds_stays(bubblewrapped: Cell) -> None:
    with holder(bubblewrapped.root) as process:
        remove_abandoned_placeholders(bubblewrapped.root)
        assert standing(bubblewrapped.root) == [*FOLDERS]
        process.communicate()
    assert standing(bubblewrapped.root) == []


async def test_while_somebody_is_at_work_nothing_is_made_anew_for_the_next_command(bubblewrapped: Cell) -> None:
    def there() -> list[int]:
        records = records_of(bubblewrapped.confinement.vibe_home)
        made = [*(bubblewrapped.root / name for name in FOLDERS), *records.iterdir()]
        return [path.stat().st_ino for path in made]

    async with bubblewrapped.confinement.at_work():
        await bubblewrapped.run(":")
        before = await anyio.to_thread.run_sync(there)
        refused = await bubblewrapped.run("mkdir .vibe/tools || echo x > AGENTS.md")
        said = bubblewrapped.aside
        after = await anyio.to_thread.run_sync(there)

    assert (len(before), before) == (3, after)
    assert "Read-only file system" in refused.stderr
    assert "AGENTS.md decides what runs later" in said
    assert standing(bubblewrapped.root) == []
    assert not [*records_of(bubblewrapped.confinement.vibe_home).iterdir()]


async def test_what_a_user_puts_in_or_takes_away_meanwhile_is_heeded(bubblewrapped: Cell) -> None:
    async with bubblewrapped.confinement.at_work():
        await bubblewrapped.run(":")
        (bubblewrapped.root / ".vibe" / "config.toml").write_text("mine")
        (bubblewrapped.root / ".agents").rmdir()
        refused = await bubblewrapped.run("rm .vibe/config.toml; mkdir .agents/skills; ls -d .agents")

    assert (refused.stdout, refused.stderr.count("Read-only file system")) == (".agents\n", 2)
    assert (bubblewrapped.root / ".vibe" / "config.toml").read_text() == "mine"
    assert standing(bubblewrapped.root) == [".vibe"]


async def test_a_guard_ends_at_once_only_where_there_is_nothing_to_do(bubblewrapped: Cell) -> None:
    place, guard = Place(roots=(bubblewrapped.root,)), bubblewrapped.confinement.guard
    alone = await anyio.to_thread.run_sync(guard, place)
    async with bubblewrapped.confinement.at_work():
        same, changed, other = [await anyio.to_thread.run_sync(guard, place) for _ in range(3)]
        assert same.end_at_once()
        (bubblewrapped.root / "AGENTS.md").write_text("evil")
        assert not changed.end_at_once()
        (bubblewrapped.root / "AGENTS.md").rename(bubblewrapped.root / "AGENTS.override.md")
        assert not other.end_at_once()
        for one in (changed, other):
            await anyio.to_thread.run_sync(one.end)

    assert not alone.end_at_once()
    assert await anyio.to_thread.run_sync(alone.end) == ""
    assert standing(bubblewrapped.root) == []


async def test_a_command_in_the_background_keeps_what_it_needs_to_its_end(bubblewrapped: Cell) -> None:
    place = Place(roots=(bubblewrapped.root,))
    async with bubblewrapped.confinement.at_work():
        guard = await anyio.to_thread.run_sync(bubblewrapped.confinement.guard, place)

    assert standing(bubblewrapped.root) == [*FOLDERS]
    assert await anyio.to_thread.run_sync(guard.end) == ""
    assert standing(bubblewrapped.root) == []


def test_an_empty_folder_of_the_user_stays(bubblewrapped: Cell) -> None:
    run_plain(WORKTREE_SETTINGS, bubblewrapped.root, bubblewrapped.environ)
    settings = bubblewrapped.root / ".git" / "config.worktree"
    (bubblewrapped.root / ".vibe").mkdir()
    settings.touch()
    killed_at(bubblewrapped.root)

    remove_abandoned_placeholders(bubblewrapped.root)
    anyio.run(bubblewrapped.run, ":")

    assert (standing(bubblewrapped.root), settings.exists()) == ([".vibe"], True)


def test_what_the_user_put_into_one_is_the_users(bubblewrapped: Cell) -> None:
    killed_at(bubblewrapped.root)
    mine = bubblewrapped.root / ".vibe" / "config.toml"
    mine.write_text("mine")

    remove_abandoned_placeholders(bubblewrapped.root)
    mine.unlink()  # and empty, it is theirs still
    remove_abandoned_placeholders(bubblewrapped.root)

    assert standing(bubblewrapped.root) == [".vibe"]


def test_a_repository_without_a_folder_for_hooks_gets_one_that_no_command_is_blamed_for(cell: Cell) -> None:
    run_plain("git init -q . && rm -r .git/hooks", cell.root, cell.environ)
    before = {path.name for path in (cell.root / ".git").iterdir()}

    anyio.run(cell.run, "echo evil > .git/hooks/pre-commit")

    assert "hooks decides" not in cell.aside
    assert {path.name for path in (cell.root / ".git").iterdir()} - before == {"hooks"}
    assert not [*(cell.root / ".git" / "hooks").iterdir()]


WORKTREE = "git init -q . && git commit -q --allow-empty -m one && git worktree add -q ../one"


def test_a_worktree_that_is_removed_just_then_fails_no_command(bubblewrapped: Cell) -> None:
    run_plain(WORKTREE, bubblewrapped.root, bubblewrapped.environ)

    ended = run_in(bubblewrapped, "git log -1 > /dev/null", meanwhile="git worktree remove ../one")

    assert ended == (0, "")
    assert not (bubblewrapped.root / ".git" / "worktrees").exists()


def test_a_worktree_that_is_made_just_then_stays_whole(cell: Cell) -> None:
    run_plain(f"{WORKTREE} && mkdir ../held && mv .git/worktrees/one/* ../held", cell.root, cell.environ)
    guard = cell.confinement.guard(Place(roots=(cell.root,)))

    run_plain("mv ../held/* .git/worktrees/one", cell.root, cell.environ)

    assert guard.end() == ""
    run_plain("git -C ../one status", cell.root, cell.environ)
