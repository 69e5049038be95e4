"""Diffs of files with unusual names, as git writes them, and of large new ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ipc.events import WorktreeEvent
from vibe.app.engine.host import Host
from vibe.dashboard.changes import DIFF, MOST_NEW_BYTES, net_changes, parse_diff

NAMES = (
    "plain.txt",
    "café.txt",
    'a"b.txt',
    "tab\there.txt",
    "back\\slash.txt",
    "new\nline.txt",
    "\u202ertl.txt",
    "日本.txt",
)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "core.quotePath=false")
    return subprocess.run(("git", *identity, *words), cwd=folder, capture_output=True, check=True).stdout.decode()


def test_every_name_is_shown_as_it_is(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in (*NAMES, "old é.txt"):
        (tmp_path / name).write_text(f"{name!r}\n" * 20)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    for name in NAMES:
        (tmp_path / name).write_text("new\n")
    (tmp_path / "old é.txt").rename(tmp_path / 'new "é".txt')
    git(tmp_path, "add", "-A")
    found = {file["path"]: file for file in parse_diff(git(tmp_path, *DIFF, "HEAD", "--"))}
    assert found.keys() == {*NAMES, 'new "é".txt'}
    assert (found['new "é".txt']["old"], found['new "é".txt']["status"]) == ("old é.txt", "renamed")


def test_an_untracked_file_that_is_too_large_is_shown_as_far_as_its_last_whole_character(tmp_path: Path) -> None:
    folder, home = tmp_path / "tree", tmp_path / "home"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-qm", "start", "--allow-empty")
    base = git(folder, "rev-parse", "HEAD").strip()
    for name, data in {"large": b"x" + "é".encode() * MOST_NEW_BYTES, "torn": b"x\xc3", "small": b"x\n"}.items():
        (folder / name).write_bytes(data)
    tree = WorktreeEvent(status="created", folder=str(folder), base=base)
    files = {file["path"]: file for file in net_changes(Host(home=home, environ={}), "plan", "step", tree)["files"]}
    shown = {name: (file["binary"], file["cut"], file["added"]) for name, file in files.items()}
    assert shown == {"large": (False, True, 1), "torn": (True, False, 0), "small": (False, False, 1)}
