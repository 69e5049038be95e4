"""Diffs of files with unusual names, as git writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vibe.dashboard.changes import DIFF, parse_diff

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
