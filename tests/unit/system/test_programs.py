"""Programs that vibe itself starts are found outside workspaces, and commands get the user's own search paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vibe.system.git.calls import GitCall, git_environ, run_git
from vibe.system.programs import SEARCHED, command_environ, find_program, guarded, shunned

SYSTEM = "/usr/bin:/bin"
Lay = Callable[[Path, Path], str]


def plant(folder: Path, name: str = "git") -> Path:
    """Write a program that reports that it was planted, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\necho planted\n")
    program.chmod(0o755)
    return folder


def link(at: Path, target: Path) -> Path:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(target)
    return at


def by_a_link_out(work: Path, out: Path) -> str:
    link(work / "tools", plant(out / "real"))
    return str(work / "tools")


def by_a_link_through(work: Path, out: Path) -> str:
    link(work / "way", plant(out / "real"))
    return str(link(out / "bin", work / "way"))


def by_the_program_alone(work: Path, out: Path) -> str:
    plant(work / "src")
    (out / "bin").mkdir(parents=True)
    link(out / "bin" / "git", work / "src" / "git")
    return str(out / "bin")


def by_dots(work: Path, out: Path) -> str:
    plant(work / "bin")
    (out / "x").mkdir(parents=True)
    return f"{out}/x/../../{work.name}/./bin"


PLACES: dict[str, Lay] = {
    "an activated environment": lambda work, _: str(plant(work / ".venv" / "bin")),
    "node's": lambda work, _: str(plant(work / "node_modules" / ".bin")),
    "the workspace itself": lambda work, _: str(plant(work)),
    "a link to it": lambda work, out: str(link(out / "bin", plant(work / "bin"))),
    "a link from it": by_a_link_out,
    "a way through it": by_a_link_through,
    "a program's link": by_the_program_alone,
    "dots": by_dots,
    "a slash too many": lambda work, _: f"/{plant(work / 'bin')}//",
    "a link loop": lambda work, _: str(link(work / "loop", work / "loop")),
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    return work, out


@pytest.mark.parametrize("name", PLACES)
def test_nothing_is_started_that_stands_in_a_workspace(places: tuple[Path, Path], name: str) -> None:
    entry = PLACES[name](*places)
    given = {"PATH": f"{entry}:{SYSTEM}"}

    own = guarded(given, [places[0]])

    assert own["PATH"] == SYSTEM
    assert find_program("git", own) == find_program("git", {"PATH": SYSTEM})
    assert command_environ(own) == given
    version = run_git(GitCall(words=("version",), folder=places[0], environ=git_environ(given, places[0])))
    assert version.text.startswith("git version")


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin", "~/bin", "node_modules/.bin"])
def test_relative_entries_count_for_commands_alone(places: tuple[Path, Path], entry: str) -> None:
    given = {"PATH": f"{SYSTEM}:{entry}:/sbin"}

    assert guarded(given, [])["PATH"] == f"{SYSTEM}:/sbin"
    assert command_environ(guarded(given, [places[0]])) == given


def test_a_workspace_by_another_name_is_the_same(places: tuple[Path, Path]) -> None:
    work, out = places
    plant(work / "bin")
    other = link(out / "other", work)

    assert guarded({"PATH": f"{work}/bin:{SYSTEM}"}, [other])["PATH"] == SYSTEM
    assert guarded({"PATH": f"{other}/bin:{SYSTEM}"}, [work])["PATH"] == SYSTEM


def test_what_stands_outside_stays_and_folders_add_up(places: tuple[Path, Path]) -> None:
    work, out = places
    given = {"PATH": f"{plant(work / 'bin')}:{plant(out / 'bin')}:{plant(out / 'more')}", "LANG": "C"}

    once = guarded(given, [work])
    twice = guarded(once, [out / "more"])

    assert once["PATH"] == f"{out}/bin:{out}/more"
    assert twice["PATH"] == f"{out}/bin"
    assert command_environ(twice) == given


def test_a_path_of_a_workspace_alone_leaves_nothing_to_find(places: tuple[Path, Path]) -> None:
    work, _ = places
    given = {"PATH": str(plant(work / "bin"))}
    own = guarded(given, [work])

    assert find_program("git", own) is None
    assert shunned("git", own) == f" ({work}/bin/git is not used, for commands may change what is there)"
    assert shunned("no-such-program", own) == ""
    with pytest.raises(OSError, match="git"):
        run_git(GitCall(words=("version",), folder=work, environ=git_environ(given, work)))


@pytest.mark.parametrize("name", [name for name in SEARCHED if name != "PATH"])
def test_parts_of_programs_are_not_taken_from_a_workspace(places: tuple[Path, Path], name: str) -> None:
    work, out = places
    given = {name: f"{work}/lib:{out}/lib:lib", "PATH": SYSTEM}
    own = guarded(given, [work])

    assert own[name] == f"{out}/lib"
    assert command_environ(own) == given
    assert name not in guarded({"PATH": SYSTEM}, [work])


TIES = (
    "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_CONFIG_PARAMETERS",
    "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_CONFIG",
    "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_REFLOG_ACTION", "GIT_LITERAL_PATHSPECS",
)  # fmt: skip


def test_commands_are_not_tied_to_the_repository_of_a_hook(tmp_path: Path) -> None:
    kept = {"GIT_AUTHOR_NAME": "me", "GIT_CONFIG_COUNT": "0", "GIT_SSL_CAINFO": "/ca", "GIT_PAGER": "less"}
    given = dict.fromkeys(TIES, "elsewhere") | kept

    assert command_environ(given) == kept
    assert not git_environ({**given, "GIT_PAGER": ""}, tmp_path).keys() & set(TIES)


def test_all_that_git_calls_local_is_left_out(tmp_path: Path) -> None:
    listed = run_git(
        GitCall(words=("rev-parse", "--local-env-vars"), folder=tmp_path, environ=git_environ(os.environ, tmp_path))
    )

    left = command_environ(dict.fromkeys(listed.text.split(), "x"))
    assert set(left) <= {"GIT_CONFIG_COUNT"}
