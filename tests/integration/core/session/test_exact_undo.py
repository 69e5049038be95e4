"""A rewind restores the same bytes, modes, links and folders, whatever the tree holds and however git is configured."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes.swapping import swapping
from tests.fakes.unprivileged import as_before, folder_of_nobody
from tests.integration.core.session.repository import ENVIRON, git, repository, write
from tests.integration.core.session.test_rewind import Story
from vibe.app.plan.rewind import PlanFilesLog
from vibe.core.session.restoring import Blame, Restoration, RestoredFiles
from vibe.core.session.snapshots import Point, Snapshots

Tree = Mapping[bytes, tuple[int, bytes]]

NAMES = (
    b"a.txt",
    b"B.txt",
    b"b.txt",
    b"run.sh",
    b"\xff\xfe.bin",
    "é.txt".encode(),
    b"new\nline",
    b'"q"',
    b"-f",
    b"[x]",
)
FOLDERS = (b"", b"src", b"src/deep", b"docs", b"\xe9t\xe9", b"empty")
CONTENTS = (
    b"", b"plain\n", b"one\r\ntwo\r\n", b"one\r\ntwo\n", b"\xef\xbb\xbfbom\r\n", "ünï\n".encode("latin-1"),
    "wide\r\n".encode("utf-16"), b"$Id$\n", b"$Id: 0123 $\n$Format:%H$\n", b"\0\1\2\r\n", b"no end",
)  # fmt: skip
MODES = (0o644, 0o755, 0o600, 0o640, 0o444, 0o400, 0o4755, 0o2755, 0o664)
FOLDER_MODES = (0o755, 0o700, 0o2775, 0o1777, 0o555)
ATTRIBUTES = (
    "", "* text=auto\n", "* text eol=crlf\n", "* text eol=lf\n", "*.txt ident\n", "* export-subst\n",
    "* filter=turn\n", "*.txt working-tree-encoding=UTF-16LE\n", "* -text\n",
)  # fmt: skip
SETTINGS = (
    "core.autocrlf=true", "core.autocrlf=input", "core.eol=crlf", "core.fileMode=false", "core.symlinks=false",
    "core.ignoreCase=true", "core.precomposeUnicode=true", "core.trustctime=false", "core.checkStat=minimal",
)  # fmt: skip


def tree_of(root: Path) -> Tree:
    """Return everything in a folder except ``.git``: the mode and content of each path."""
    found: dict[bytes, tuple[int, bytes]] = {}
    top = os.fsencode(root)
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != b".git"]
        for name in (*folders, *names):
            path = os.path.join(folder, name)  # noqa: PTH118  the names are bytes
            mode = os.lstat(path).st_mode
            content = b""
            if stat.S_ISLNK(mode):
                content = os.readlink(path)  # noqa: PTH115
            elif stat.S_ISREG(mode):
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, top)] = (mode, content)
    return found


class Hand:
    """Changes a tree at random."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root = root
        self.dice = dice

    def act(self) -> None:
        """Do one random thing to one random place."""
        place = self._place()
        deed = self.dice.choice((
            self._write,
            self._write,
            self._link,
            self._remove,
            self._make,
            self._mode,
            self._move,
        ))
        with suppress(OSError, shutil.Error):
            deed(place)

    def _place(self) -> Path:
        folder = self.dice.choice(FOLDERS)
        return self.root / os.fsdecode(folder) / os.fsdecode(self.dice.choice((*NAMES, *NAMES, b"src", b"docs")))

    def _write(self, place: Path) -> None:
        if place.is_dir() and not place.is_symlink():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_bytes(self.dice.choice(CONTENTS))
        place.chmod(self.dice.choice(MODES))

    def _link(self, place: Path) -> None:
        self._remove(place)
        place.symlink_to(self.dice.choice(("a.txt", "nowhere", "..", "/etc", "src")))

    def _remove(self, place: Path) -> None:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def _make(self, place: Path) -> None:
        place.mkdir(parents=True)
        place.chmod(self.dice.choice(FOLDER_MODES))

    def _mode(self, place: Path) -> None:
        if not place.is_symlink():
            place.chmod(self.dice.choice(FOLDER_MODES if place.is_dir() else MODES))

    def _move(self, place: Path) -> None:
        other = self._place()
        if not os.path.lexists(other):
            place.rename(other)


def made(base: Path, dice: random.Random) -> tuple[Path, dict[str, str]]:
    """Make a workspace with a history of its own, and return it with the variables of its user."""
    root, home = base / "w", base / "user"
    root.mkdir()
    home.mkdir()
    environ = {**ENVIRON, "HOME": str(home)}
    hand = Hand(root, dice)
    if dice.random() < 0.2:
        for _ in range(15):
            hand.act()
        return root, environ
    git("init", "-q", "-b", "main", cwd=root)
    for setting in dice.sample(SETTINGS, 3):
        name, _, value = setting.partition("=")
        where = ["-f", str(home / ".gitconfig")] if dice.random() < 0.5 else []
        git("config", *where, name, value, cwd=root)
    for name in ("clean", "smudge"):
        git("config", f"filter.turn.{name}", "tr a-z b-za", cwd=root)
    for _ in range(15):
        hand.act()
    (root / ".gitattributes").write_text(dice.choice(ATTRIBUTES))
    (root / "inner").mkdir()
    git("init", "-q", cwd=root / "inner")
    git("-c", "core.safecrlf=false", "add", "-A", "--", ".", ":!inner", cwd=root, check=False)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=root)
    for _ in range(dice.randrange(4)):
        hand.act()
    return root, environ


def by_session(base: Path, root: Path, environ: Mapping[str, str], change: Callable[[], None]) -> RestoredFiles:
    """Change files in a conversation, and rewind it to its beginning."""
    story = Story(base, root)
    story.history = Snapshots(root, story.folder.path, environ)
    story.prompt("go", change)
    return story.manager.rewind(story.saved, 0).files


def by_plan(base: Path, root: Path, environ: Mapping[str, str], change: Callable[[], None]) -> RestoredFiles:
    """Change files in a step, recorded by two processes, and rewind to before the first step."""
    folder = base / "files"
    folder.mkdir()
    log = PlanFilesLog(Snapshots(root, folder, environ))
    log.take(begun=("one",))
    change()
    log.take(ended=("one",))
    snapshots = Snapshots(root, folder, environ)
    PlanFilesLog(snapshots).take()

    def blame(points: Sequence[Point]) -> Blame:
        return Blame(mine={path for point in points[1:] for path in point.changed}, others=set())

    return Restoration(snapshots, snapshots.points(), 0, blame, base / "aside").carry_out()


@pytest.mark.parametrize("door", [by_session, by_plan])
@pytest.mark.parametrize("seed", range(20))
def test_bytes_modes_links_and_folders_are_as_they_were(
    tmp_path: Path, seed: int, door: Callable[..., RestoredFiles]
) -> None:
    dice = random.Random(seed)
    root, environ = made(tmp_path, dice)
    before = tree_of(root)
    hand = Hand(root, dice)

    def change() -> None:
        for _ in range(dice.randrange(1, 25)):
            hand.act()
        if dice.random() < 0.3:
            os.mkfifo(root / "pipe")

    done = door(tmp_path, root, environ, change)

    (root / "pipe").unlink(missing_ok=True)  # a pipe is no file, so no agent's work
    assert done.skipped == {}
    assert tree_of(root) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can look at what is closed")
@pytest.mark.parametrize("door", [by_session, by_plan])
@pytest.mark.parametrize("seed", range(100, 110))
def test_what_cannot_be_read_costs_nothing_else(seed: int, door: Callable[..., RestoredFiles]) -> None:
    dice = random.Random(seed)
    with folder_of_nobody() as base:
        root, environ = made(base, dice)
        with as_before():
            write(root, {"theirs/key": "k", "theirs.key": "k"})
            (root / "theirs").chmod(0o700)
            (root / "theirs.key").chmod(0o600)
            before = tree_of(root)
        hand = Hand(root, dice)

        def change() -> None:
            for _ in range(dice.randrange(1, 25)):
                hand.act()
            for path in dice.sample([root / os.fsdecode(path) for path in before if b"theirs" not in path], 3):
                if path.is_file() and not path.is_symlink():
                    path.chmod(0)

        done = door(base, root, environ, change)

        with as_before():
            assert (done.skipped, tree_of(root)) == ({}, before)


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    root, outside, link = repository(tmp_path / "work", {}), tmp_path / "outside", tmp_path / "work" / "link"
    outside.mkdir()
    before = {f"d/{number}.txt": f"old {number}\n" for number in range(400)}
    added = {f"d/new-{number}.txt": "new\n" for number in range(400)}
    for name in added:
        (outside / Path(name).name).write_text("not theirs\n")
    write(root, before)

    def change() -> None:
        write(root, {**dict.fromkeys(before, "changed\n"), **added})

    folder = tmp_path / "files"
    folder.mkdir()
    snapshots = Snapshots(root, folder, ENVIRON)
    snapshots.take(0)
    change()
    snapshots.take(1)
    link.symlink_to(outside)
    everything = Blame(mine={*before, *added}, others=set())
    restoration = Restoration(snapshots, snapshots.points(), 0, lambda _: everything, tmp_path / "aside")
    with swapping(root / "d", link):
        done = restoration.carry_out()

    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(
        (Path(name).name for name in added), "not theirs\n"
    )
    assert done.restored or done.deleted or done.skipped
