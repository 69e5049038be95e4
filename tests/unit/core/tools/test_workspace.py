"""Paths in a workspace: where they lead, whether they may be read or written, and the version an agent has read."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from vibe.core.tools.errors import PathError
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.system.globs import matches_any


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a workspace with links in and out, beside a folder outside it."""
    root = tmp_path / "work"
    outside = tmp_path / "outside"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "docs").mkdir()
    outside.mkdir()
    (root / "src" / "a.py").write_text("a")
    (outside / "secret.txt").write_text("secret")
    (root / "out").symlink_to(outside)
    (root / "secret").symlink_to(outside / "secret.txt")
    (root / "in").symlink_to(root / "src")
    (root / "relative").symlink_to("src/a.py")
    (root / "dangling").symlink_to(outside / "not-yet.txt")
    (root / "loop").symlink_to("loop")
    (root / "ping").symlink_to("pong")
    (root / "pong").symlink_to("ping")
    (root / "up").symlink_to("..")
    (root / "chain").symlink_to("up")
    return root


READABLE = {
    ".": ".",
    "./": ".",
    "src/a.py": "src/a.py",
    "./src//a.py": "src/a.py",
    "src/../src/a.py": "src/a.py",
    "src/deep/../../docs": "docs",
    "missing/file.txt": "missing/file.txt",
    "in/a.py": "src/a.py",
    "relative": "src/a.py",
    "in/deep/../a.py": "src/a.py",
    "up/work/src/a.py": "src/a.py",
    "..src": "..src",
    "...": "...",
    "a b\tc": "a b\tc",
    "-rf": "-rf",
    "~nobody-of-that-name/x": "~nobody-of-that-name/x",
    "SRC/a.py": "SRC/a.py",
}


@pytest.mark.parametrize("path", READABLE)
def test_a_path_that_stays_inside_is_resolved(root: Path, path: str) -> None:
    workspace = Workspace(root=root)
    expected = Path(os.path.realpath(root)) / READABLE[path]
    assert workspace.readable(path) == workspace.writable(path) == expected


OUTSIDE = (
    "..",
    "../",
    "../outside/secret.txt",
    "src/../../outside/secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "out",
    "out/secret.txt",
    "out/new.txt",
    "in/../../outside/secret.txt",
    "secret",
    "dangling",
    "up",
    "up/outside/secret.txt",
    "chain/outside/secret.txt",
    "missing/../../outside/secret.txt",
    "~",
    "~/.ssh/id_rsa",
    "~root/.profile",
    "/proc/self/root/etc/passwd",
    "/proc/self/cwd/../../../../../etc/passwd",
    "/dev/null",
    "src/a.py/../../../outside/secret.txt",
)


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_outside_is_refused(root: Path, path: str) -> None:
    workspace = Workspace(root=root)
    with pytest.raises(PathError, match="outside the workspace"):
        workspace.readable(path)
    with pytest.raises(PathError, match="leads outside the workspace"):
        workspace.writable(path)


@pytest.mark.parametrize("path", ["loop", "loop/x", "ping", "pong/x/y", "loop/../out/secret.txt", "", "a\0b", "\ud800"])
def test_a_path_that_leads_nowhere_is_refused(root: Path, path: str) -> None:
    with pytest.raises(PathError):
        Workspace(root=root).readable(path)  # 3.13 follows what comes after a loop, which then leads outside


def test_an_absolute_path_inside_is_taken(root: Path) -> None:
    assert Workspace(root=root).readable(str(root / "src" / "a.py")).name == "a.py"


def test_a_sibling_whose_name_begins_like_the_root_is_outside(root: Path) -> None:
    sibling = root.with_name("work-too")
    sibling.mkdir()
    with pytest.raises(PathError, match="leads outside the workspace"):
        Workspace(root=root).readable(str(sibling))


def test_a_root_reached_through_a_link_is_the_same_root(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    workspace = Workspace(root=link)
    assert workspace.root == root.resolve()
    assert workspace.readable(str(link / "src" / "a.py")) == workspace.readable("src/a.py")


def test_a_relative_root_is_refused() -> None:
    with pytest.raises(PathError, match="not absolute"):
        Workspace(root=Path("here"))


def test_a_link_swapped_in_later_is_seen_at_the_next_use(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root=root)
    assert workspace.writable("docs/page.md")
    (root / "docs").rmdir()
    (root / "docs").symlink_to(tmp_path / "outside")
    with pytest.raises(PathError, match="leads outside the workspace"):
        workspace.writable("docs/page.md")


@pytest.mark.parametrize(("on_disk", "asked"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFC", "NFC"), ("NFD", "NFD")])
def test_a_name_is_found_in_either_unicode_form(root: Path, on_disk: str, asked: str) -> None:
    forms = {form: unicodedata.normalize(form, "Übung-é.txt") for form in ("NFC", "NFD")}
    (root / forms[on_disk]).write_text("x")
    assert Workspace(root=root).readable(forms[asked]).read_text() == "x"


def test_each_name_of_a_path_is_found_in_its_own_unicode_form(tmp_path: Path) -> None:
    root = tmp_path / unicodedata.normalize("NFD", "ö")
    file = root / unicodedata.normalize("NFC", "é") / unicodedata.normalize("NFD", "ü.txt")
    file.parent.mkdir(parents=True)
    file.write_text("x")
    workspace = Workspace(root=root)
    for form in ("NFC", "NFD"):
        assert workspace.readable(unicodedata.normalize(form, "é/ü.txt")) == file
        assert workspace.readable(unicodedata.normalize(form, str(file))) == file


def test_a_new_name_keeps_its_unicode_form(root: Path) -> None:
    name = unicodedata.normalize("NFD", "é.txt")
    assert Workspace(root=root).writable(name).name == name


def test_a_hard_link_can_not_be_told_from_the_file_itself(root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "secret.txt", root / "hard")
    assert Workspace(root=root).readable("hard").read_text() == "secret"


def test_extra_roots_are_readable_and_writable(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root=root, extra_roots=(tmp_path / "outside",))
    assert workspace.readable("out/secret.txt") == workspace.writable(str(tmp_path / "outside" / "secret.txt"))
    assert workspace.relative(workspace.readable("secret")) == (tmp_path / "outside" / "secret.txt").as_posix()


def test_read_roots_are_readable_only(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root=root).granting([tmp_path / "outside"], write=False)
    assert workspace.readable("out/secret.txt")
    with pytest.raises(PathError, match="leads outside the workspace"):
        workspace.writable("out/secret.txt")


def test_a_granted_file_grants_nothing_beside_it(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root=root).granting([tmp_path / "outside" / "secret.txt"], write=True)
    assert workspace.writable("secret")
    with pytest.raises(PathError, match="leads outside the workspace"):
        workspace.readable("out/other.txt")


MATCHING = (
    ("src/a.py", "src/a.py"),
    ("./src/a.py", "src/a.py"),
    ("src/*.py", "src/a.py"),
    ("*", "a.py"),
    ("**", "src/deep/a.py"),
    ("src/**", "src/deep/a.py"),
    ("src/", "src/deep/a.py"),
    ("**/*.py", "a.py"),
    ("**/*.py", "src/deep/a.py"),
    ("src/**/a.py", "src/a.py"),
    ("src/**/a.py", "src/x/y/a.py"),
    ("a?.py", "ab.py"),
    ("[ab].py", "b.py"),
    ("[]].py", "].py"),
    ("[.py", "[.py"),
    ("[z-a]", "[z-a]"),
    ("a+(b).py", "a+(b).py"),
)
NOT_MATCHING = (
    ("src/a.py", "src/b.py"),
    ("src/*.py", "src/deep/a.py"),
    ("*", "src/a.py"),
    ("src/**", "src"),
    ("src/**", "srcs/a.py"),
    ("**/*.py", "src/deep/a.pyc"),
    ("src/**/a.py", "src/x/ya.py"),
    ("a?.py", "a/.py"),
    ("[!ab].py", "b.py"),
    ("[!ab].py", "/.py"),
    ("a.py", "axpy"),
    ("SRC/*", "src/a.py"),
    ("src/*\n", "src/a.py"),
    ("a.py", "a.py\n"),
)


@pytest.mark.parametrize(("glob", "name"), MATCHING)
def test_a_glob_matches(glob: str, name: str) -> None:
    assert matches_any(name, ["no-such-name", glob])


@pytest.mark.parametrize(("glob", "name"), NOT_MATCHING)
def test_a_glob_keeps_to_one_name_unless_doubled(glob: str, name: str) -> None:
    assert not matches_any(name, ["no-such-name", glob])


def test_only_claimed_paths_are_writable(root: Path) -> None:
    workspace = Workspace(root=root, writes=("docs/**", "src/a.py"))
    assert workspace.writable("docs/deep/page.md")
    assert workspace.writable("in/a.py")
    for path in ("src/b.py", "docs", "docs/../src/b.py"):
        with pytest.raises(PathError, match=r"may write \(docs/\*\*, src/a.py\)"):
            workspace.writable(path)
    assert workspace.readable("src/b.py")


def test_a_step_without_claims_writes_nothing(root: Path) -> None:
    with pytest.raises(PathError, match="none"):
        Workspace(root=root, writes=()).writable("src/a.py")


def test_a_claim_does_not_reach_outside(root: Path) -> None:
    with pytest.raises(PathError, match="leads outside the workspace"):
        Workspace(root=root, writes=("**",)).writable("out/secret.txt")


def test_only_the_version_read_last_is_current(root: Path) -> None:
    reads, path = ReadTracker(), root / "src" / "a.py"
    assert not reads.is_current(path, b"a")
    reads.note(path, b"a")
    assert reads.is_current(path, b"a")
    assert not reads.is_current(path, b"b")
    assert not reads.is_current(root / "other", b"a")
    reads.note(path, b"b")
    assert not reads.is_current(path, b"a")


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/" * 15 + "x", "/".join("a" * 40)),
        ("*a" * 30 + "*b", "a" * 255),
        ("**/*a*a*/" * 10 + "b", "/".join(["a" * 20] * 30)),
        ("[a]*" * 30 + "b", "a" * 255),
    ],
)
def test_no_glob_takes_long(glob: str, path: str) -> None:
    assert not matches_any(path, [glob])


def test_a_root_that_was_moved_or_deleted_is_not_made_anew(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root=root, extra_roots=(tmp_path / "extra",))
    root.rename(tmp_path / "moved")
    for folder in (root, tmp_path / "extra"):
        with pytest.raises(PathError, match=f"'{folder}' is gone"):
            workspace.write(folder / "deep" / "new.txt", "new.txt", b"text", previous=None)
        assert not folder.exists()
