"""The places where vibe keeps its own files, wherever they are."""

from __future__ import annotations

import os
from pathlib import Path
from pwd import getpwuid

import pytest

from vibe.system.own_places import OwnPlaces, user_home_of


def below(root: Path, places: OwnPlaces) -> set[str]:
    return {place.relative_to(root.resolve()).as_posix() for place in places.below(root)}


def test_a_home_in_the_workspace_is_no_part_of_the_work(tmp_path: Path) -> None:
    (tmp_path / "state" / ".vibe").mkdir(parents=True)

    assert "state/.vibe" in below(tmp_path, OwnPlaces(home=tmp_path / "state" / ".vibe"))


def test_who_works_in_the_home_itself_works_on_the_settings_and_not_on_the_state(tmp_path: Path) -> None:
    found = below(tmp_path, OwnPlaces(home=tmp_path))

    assert {"logs", "plans", ".env"} <= found
    assert not {"config.toml", "tools"} & found


def test_a_worktree_inside_the_home_is_worked_in_like_any_folder(tmp_path: Path) -> None:
    tree = tmp_path / "plans" / "p" / "worktrees" / "one"

    assert below(tree, OwnPlaces(home=tmp_path)) == set()


def test_sockets_results_and_temporary_files_are_found_by_where_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "tmp" / "vibe-run-x").mkdir(parents=True)
    (tmp_path / "tmp" / "mine").mkdir()
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "TMPDIR": str(tmp_path / "tmp")}

    found = below(tmp_path, OwnPlaces(environ=environ, results=(tmp_path / "out" / "result.json",)))

    assert found == {"out/result.json", "run/vibe", "tmp/vibe-run-x"}


def test_a_link_to_the_home_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "work" / "home").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/work")

    assert "home" in below(tmp_path / "link", OwnPlaces(home=tmp_path / "real" / "work" / "home"))


def test_what_another_home_left_behind_is_like_any_file(tmp_path: Path) -> None:
    (tmp_path / ".other-vibe" / "logs").mkdir(parents=True)

    assert below(tmp_path, OwnPlaces(home=tmp_path / ".vibe")) == {
        f".vibe{rest}" for rest in ("", "/.env", "/git", "/locks", "/logs", "/plans", "/run")
    }


@pytest.mark.parametrize("home", ["", "relative", "~"])
def test_a_home_that_names_no_place_is_that_of_the_account(home: str) -> None:
    assert user_home_of({"HOME": home}) == Path(getpwuid(os.getuid()).pw_dir)


def test_a_home_that_names_a_place_counts(tmp_path: Path) -> None:
    assert user_home_of({"HOME": str(tmp_path)}) == tmp_path
