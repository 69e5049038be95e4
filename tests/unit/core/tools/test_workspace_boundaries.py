"""Sixty ways to name a file, each really tried: what is inside is reached, and what is outside is never touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.swapping import swapping
from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.builtins.glob import Glob
from vibe.core.tools.builtins.list_dir import ListDir
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import create_file, open_file, replace_file
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import VibeError

SECRET = b"outside"
INSIDE = b"inside"
LONG = "x" * 300
ACCENTED = unicodedata.normalize("NFC", "é.txt")

REACHED = (
    "a.txt", "./a.txt", "a.txt/.", ".//a.txt", "src/../a.txt", "src/./../a.txt", "src/deep/../../a.txt", "in/../src/b.txt", "in/b.txt",
    "link-in", "link-chain", "{root}/a.txt", "{root}/./src/../a.txt", "{root}//a.txt", "/{root}/a.txt", "up/work/a.txt",
    "a b.txt", "-n", "*.txt", "$HOME", "a;b", "a\nb", "..hidden", "...", "~tilde", ACCENTED, unicodedata.normalize("NFD", ACCENTED),
    "{proc}/a.txt", "\u202ea.txt",
)  # fmt: skip
"""Names of a file that contains ``INSIDE``.

``{root}`` is the workspace, and ``{proc}`` the same through /proc/self/root.
"""

OUT = (
    "..", "../outside.txt", "../outside/secret.txt", "src/../../outside.txt", "./../outside.txt", "src/deep/../../../outside.txt",
    "{base}/outside.txt", "//{base}/outside.txt", "{base}/work/../outside.txt", "{base}/work-too/x.txt", "link-out", "dir-out/secret.txt",
    "dir-out/../outside.txt", "chain-out", "up/outside.txt", "src/deep-out", "in/../../outside.txt", "/etc/passwd", "/proc/self/{r}/etc/passwd",
    "/proc/self/environ", "/proc/self/cwd/../../etc/passwd", "/proc/{pid}/{r}/etc/passwd", "/dev/null", "/dev/stdin", "~", "~/.ssh/id_rsa",
    "~{r}/.profile", "/", "//", "{proc}/../outside.txt", "missing/../../outside.txt", "dangling-out", "fd-out", "in/../dir-out/secret.txt",
)  # fmt: skip
"""Names that lead out of the workspace. ``{base}`` is the folder above it."""

USELESS = (
    "", "a\0b", "a.txt\0", "loop", "loop/x", "ping", "fifo", "socket", "src", "src/", ".", "a.txt/", "a.txt/x", LONG, f"{'d/' * 3000}x",
    "A.TXT", "a.txt ", "missing", "link-in/x", "secret-mode",
)  # fmt: skip
"""Names inside the workspace, or nowhere, without a file that can be read."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Create a workspace ``work`` beside files that are outside it."""
    root = tmp_path / "work"
    for folder in ("work/src/deep", "outside", "work-too"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (
        "a.txt",
        "a b.txt",
        "-n",
        "*.txt",
        "$HOME",
        "a;b",
        "a\nb",
        "..hidden",
        "...",
        "~tilde",
        ACCENTED,
        "src/b.txt",
        "\u202ea.txt",
    ):
        (root / name).write_bytes(INSIDE)
    for name in ("outside.txt", "outside/secret.txt", "work-too/x.txt"):
        (tmp_path / name).write_bytes(SECRET)
    links = {
        "in": "src", "link-in": "a.txt", "link-chain": "link-in", "up": "..", "link-out": "../outside.txt", "dir-out": "../outside",
        "chain-out": "link-out", "src/deep-out": "../../outside.txt", "loop": "loop", "ping": "pong", "pong": "ping",
        "dangling-out": "../not-yet.txt", "fd-out": "/proc/self/fd/0",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "fifo")
    os.mknod(root / "socket", 0o140644)
    (root / "secret-mode").mkdir()
    return tmp_path


def filled(path: str, base: Path) -> str:
    root = base / "work"
    places = {
        "{root}": str(root),
        "{base}": str(base),
        "{r}": "root",
        "{proc}": f"/proc/self/root{root}",
        "{pid}": str(os.getpid()),
    }
    for place, value in places.items():
        path = path.replace(place, value)
    return path


def read(path: str, base: Path) -> bytes:
    with open_file(Workspace(root=base / "work").readable(path), path) as file:
        return file.read()


def outside(base: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in base.rglob("*") if path.is_file() and base / "work" not in path.parents
    }


def test_there_are_enough_cases() -> None:
    assert len({*REACHED, *OUT, *USELESS}) >= 60


@pytest.mark.parametrize("path", REACHED, ids=ascii)
def test_what_is_inside_is_reached_however_it_is_named(path: str, base: Path) -> None:
    assert read(filled(path, base), base) == INSIDE


@pytest.mark.parametrize("path", OUT, ids=ascii)
def test_what_is_outside_is_neither_read_nor_written(path: str, base: Path) -> None:
    before, name = outside(base), filled(path, base)
    with pytest.raises(VibeError, match="outside the workspace"):
        read(name, base)
    with pytest.raises(VibeError):
        create_file(Workspace(root=base / "work").writable(name), name, b"x")
    assert outside(base) == before


@pytest.mark.parametrize("path", USELESS, ids=lambda path: ascii(path)[:20])
def test_what_is_no_file_is_refused_in_one_sentence(path: str, base: Path) -> None:
    with pytest.raises(VibeError) as refusal:
        read(path, base)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_hard_link_shares_its_file_but_is_replaced_by_a_new_one(base: Path) -> None:
    os.link(base / "outside.txt", base / "work" / "hard")
    workspace = Workspace(root=base / "work")
    replace_file(workspace.writable("hard"), "hard", b"new", previous=SECRET)
    assert (base / "outside.txt").read_bytes() == SECRET


SWAP_FOLDER = """
import os, shutil, sys, time
folder, aside, target = sys.argv[1:]
print("ready", flush=True)
while True:
    try:
        os.rename(folder, aside)
        os.symlink(target, folder)
        os.unlink(folder)
        os.rename(aside, folder)
        time.sleep(0.0003)
    except OSError:  # somebody made the folder meanwhile
        while os.path.lexists(aside):
            try:
                shutil.rmtree(folder, ignore_errors=True)
                os.rename(aside, folder)
            except OSError:
                pass
"""
SWAP_FILE = """
import os, sys
file, aside, target = sys.argv[1:]
print("ready", flush=True)
while True:
    os.symlink(target, aside)
    os.rename(aside, file)
    with open(aside, "wb") as new:
        new.write(b"inside")
    os.rename(aside, file)
"""


@contextmanager
def racing(script: str, *words: Path) -> Generator[None]:
    """Run another process that keeps swapping a link in and out."""
    with subprocess.Popen([sys.executable, "-c", script, *map(str, words)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
            assert process.poll() is None, "the race ended early"
        finally:
            process.kill()


def test_a_folder_swapped_for_a_link_between_check_and_use_never_leads_out(base: Path) -> None:
    root = base / "work"
    workspace, before = Workspace(root=root), outside(base)
    (root / "docs").mkdir()
    (root / "docs" / "secret.txt").write_bytes(INSIDE)
    seen: set[str] = set()
    deadline = time.monotonic() + 120
    with racing(SWAP_FOLDER, root / "docs", root / "aside", base / "outside"):
        tries = 0
        while (tries < 300 or not {"done", "refused"} <= seen) and time.monotonic() < deadline:
            tries += 1
            name = f"docs/new-{tries}"
            try:
                create_file(workspace.writable(name), name, b"x")
                seen.add("done")
            except VibeError:
                seen.add("refused")
            try:
                assert read("docs/secret.txt", base) == INSIDE
            except VibeError:
                seen.add("refused")
    assert seen == {"done", "refused"}
    assert outside(base) == before


def test_a_file_swapped_for_a_link_between_check_and_use_is_never_read_through(base: Path) -> None:
    root = base / "work"
    seen: set[str] = set()
    deadline = time.monotonic() + 120
    with racing(SWAP_FILE, root / "a.txt", root / "aside", base / "outside.txt"):
        tries = 0
        while (tries < 300 or not {"done", "refused"} <= seen) and time.monotonic() < deadline:
            tries += 1
            try:
                assert read("a.txt", base) == INSIDE
                seen.add("done")
            except VibeError:
                seen.add("refused")
    assert seen == {"done", "refused"}


async def test_no_listing_shows_what_a_link_leads_to_that_others_put_in_place_of_a_folder(base: Path) -> None:
    root, link = base / "work", base / "work" / "link"
    (root / "docs").mkdir()
    (root / "docs" / "inside.txt").write_bytes(INSIDE)
    (base / "outside" / "beyond.txt").touch()
    (base / "outside" / "inside.txt").write_bytes(b"x" * 12345)
    link.symlink_to(base / "outside")
    tools: list[tuple[Any, dict[str, Any]]] = [
        (make(ListDir), {"path": "docs"}),
        (make(Glob), {"pattern": "docs/*"}),
        (make(Glob), {"pattern": "*.txt"}),
    ]
    seen: set[str] = set()
    with swapping(root / "docs", link):
        for _ in range(300):
            for tool, words in tools:
                with suppress(ToolError):
                    seen.add(tool.format_result(await Caller(root=root).call(tool, **words)))
    assert not [shown for shown in seen if "beyond.txt" in shown or "12345" in shown]
    assert [shown for shown in seen if "inside.txt" in shown]
