from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.plain import run_plain
from vibe.shell.sandbox.control import FILES

REPOSITORY = """
git init -q . && git config user.name me && git config user.email me@example.com
git config extensions.worktreeConfig true && git config include.path ../shared.gitconfig
mkdir -p .vibe/tools .agents/skills && echo one > .vibe/config.toml && echo one > AGENTS.md && echo '[alias]' > shared.gitconfig
echo one > a && git add a && git commit -qm one && git worktree add -q ../linked && rm -f .git/hooks/*
printf '[include]\\n\\tpath = more.gitconfig\\n' >> shared.gitconfig && echo '[alias]' > more.gitconfig
git config filter.own.clean 'sh ./tools/clean "$1"' && printf '[core] sshCommand = tools/ssh\\n' >> .git/config
mkdir tools && echo cat > tools/clean && echo exit > tools/ssh && echo x > tools/other && git add tools && git commit -qm tools
mkdir inner && git -C inner init -q . && git -C inner -c user.name=a -c user.email=a@b commit -q --allow-empty -m one
git init -q ../module && git -C ../module -c user.name=a -c user.email=a@b commit -q --allow-empty -m one
git -c protocol.file.allow=always submodule --quiet add ../module sub && git commit -qm two
"""

ATTACKS = (
    "echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "git config core.pager evil",
    "printf '[core]\\n\\tpager = evil\\n' > .git/config.worktree",
    "mkdir fake; cp -r .git/objects .git/refs .git/HEAD fake; echo '[core]' > fake/config; echo ../fake > .git/commondir",
    "echo '* filter=x' > .git/info/attributes",
    "echo evil > .git/worktrees/linked/commondir",
    "echo evil > .git/worktrees/linked/gitdir",
    "echo '[core]' > .git/worktrees/linked/config.worktree",
    "echo '[core]' > .git/modules/sub/config; rm -rf .git/modules/sub/config",
    "echo x > .git/modules/sub/hooks/post-checkout",
    "git -C inner config core.pager evil",
    "echo x > inner/.git/hooks/pre-commit",
    "echo gitdir: ../fake > sub/.git",
    "echo '[core]' > shared.gitconfig",
    "echo '[core] pager = evil' > more.gitconfig",
    "echo evil > tools/clean; mv tools t; mkdir tools; echo evil > tools/clean",
    "rm tools/ssh; ln -s other tools/ssh; echo evil > tools/ssh",
    "cat > tools/clean < tools/other; ln tools/clean hard; echo evil > hard",
    "echo x > .vibe/config.toml",
    "echo 'import os' > .vibe/tools/evil.py",
    "mkdir .agents/skills/evil && echo x > .agents/skills/evil/SKILL.md",
    "echo x >> AGENTS.md",
    "rm AGENTS.md; ln -s a AGENTS.md",
    "echo x > AGENTS.override.md",
    "echo x > CLAUDE.md",
    "mv .git .g; mkdir .git; cp -r .g/* .git; echo evil > .git/config",
    "mv .vibe v; mkdir .vibe; echo x > .vibe/config.toml",
    "mv .vibe v; ln -s v .vibe; echo x > v/config.toml",
    "rm -rf .vibe .agents",
)


def settings(root: Path) -> dict[str, str]:
    """Return all that git and vibe read as settings, or run, outside: the text of each file."""
    names = [".vibe", ".agents", *FILES, "shared.gitconfig", "sub/.git"]
    names += ["more.gitconfig", "tools/clean", "tools/ssh"]
    for git in (".git", "inner/.git", ".git/worktrees/linked", ".git/modules/sub"):
        parts = ("config", "config.worktree", "hooks", "commondir", "gitdir", "info/attributes")
        names += [f"{git}/{part}" for part in parts]
    found: dict[str, str] = {}
    for path in (root / name for name in names):
        below = [path, *path.rglob("*")] if path.is_dir() else [path]
        found |= {str(one.relative_to(root)): text for one in below if one.is_file() and (text := one.read_text())}
    return found


@pytest.fixture
def repository(cell: Cell) -> Cell:
    run_plain(REPOSITORY, cell.root, cell.environ)
    return cell


async def test_what_decides_what_runs_later_stays_as_it_is(repository: Cell) -> None:
    before = settings(repository.root)
    for line in ATTACKS:
        await repository.run(f"{line}; :")
        assert changes(before, settings(repository.root)) == {}, line


async def test_a_worktree_has_its_own_copy_of_what_the_settings_name(repository: Cell) -> None:
    run_plain("git -C ../linked merge -q HEAD $(git rev-parse HEAD)", repository.root, repository.environ)
    repository.folder = repository.base / "linked"
    await repository.run(
        "echo evil > tools/clean; mv tools t; mkdir tools; echo evil > tools/clean; echo fine > tools/other"
    )
    assert (repository.folder / "tools" / "clean").read_text() == "cat\n"


async def test_what_the_users_own_settings_name_is_no_commands_to_change(cell: Cell) -> None:
    run_plain("git init -q .; mkdir .shared conf; echo '[core]' > conf/git", cell.root, cell.environ)
    (cell.base / "home" / ".gitconfig").write_text("[core]\n\thooksPath = .shared\n")
    (cell.base / "home" / ".config" / "git").mkdir(parents=True)
    (cell.base / "home" / ".config" / "git" / "config").symlink_to(cell.root / "conf" / "git")
    await cell.run(
        "echo evil > .shared/pre-commit; mv .shared s; mkdir .shared; echo evil > .shared/pre-commit; echo evil > conf/git"
    )
    assert [*(cell.root / ".shared").iterdir()] == []
    assert (cell.root / "conf" / "git").read_text() == "[core]\n"


@pytest.mark.parametrize("cell", ["bubblewrap"], indirect=True)  # Landlock restores at the end
async def test_in_bubblewrap_it_is_so_while_the_command_runs(repository: Cell) -> None:
    before = settings(repository.root)
    for fifo in ("ready", "done"):
        os.mkfifo(repository.root / fifo)
    # An empty file of these differs from none. They are put aside at the end, so they are left out here.
    lines = [
        line
        for line in ATTACKS
        if not re.search(r"> (AGENTS.override.md|CLAUDE.md|.git/(commondir|info/attributes))", line)
    ]
    for number, line in enumerate(lines):
        look = ["bash", "-c", f"read < ready; cp -r . ../{number}; echo > done"]
        outside = subprocess.Popen(look, cwd=repository.root, stderr=subprocess.DEVNULL)  # noqa: ASYNC220  it starts at once
        await repository.run(f"({line}); echo > ready; read < done; :")
        outside.kill()
        outside.wait()
        assert changes(before, settings(repository.base / str(number))) == {}, line


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    return {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}


@pytest.mark.parametrize("where", [".", "../linked"])
async def test_git_works_inside(repository: Cell, where: str) -> None:
    repository.folder = (repository.root / where).resolve()
    line = "echo two > b && git add b && git commit -qm three && git checkout -q -b other"
    ended = await repository.run(line)
    assert (ended.exit_code, ended.stdout, repository.aside) == (0, "", ""), ended.stderr
    ended = await repository.run("git stash -q -u; git tag x && git log --format=%s | head -1 && git merge -q HEAD")
    assert (ended.exit_code, ended.stdout) == (0, "three\n"), ended.stderr


async def test_nothing_stays_of_what_keeps_a_place(cell: Cell) -> None:
    before = sorted(cell.root.iterdir())
    await cell.run("mkdir -p .vibe && echo x > .vibe/config.toml; mkdir .agents; :")
    left = [path.name for path in cell.root.iterdir() if path not in before]
    assert not {".vibe", ".agents"} & set(left)


async def test_what_is_put_back_is_said_and_not_lost(landlock: Cell) -> None:
    (landlock.root / ".vibe").mkdir()
    (landlock.root / ".vibe" / "config.toml").write_text("mine")
    await landlock.run("echo theirs > .vibe/config.toml; echo new > .vibe/hooks.toml")
    assert (landlock.root / ".vibe" / "config.toml").read_text() == "mine"
    assert "config.toml decides what runs later" in landlock.aside
    assert sorted(path.read_text() for path in landlock.root.glob("*.toml-*")) == ["new\n", "theirs\n"]
