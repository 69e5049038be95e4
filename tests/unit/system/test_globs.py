"""Globs of paths: alternatives, names taken literally, and absolute globs."""

from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest

from vibe.core.tools.workspace import Workspace, any_matches
from vibe.system.globs import expand_braces, matches_any, relative_glob

MEANT = (
    ("**/*.{ts,tsx}", "src/b.tsx"),
    ("{src,tests}/**/*.py", "tests/deep/a.py"),
    ("src/{a/b,c}/*.py", "src/a/b/x.py"),
    ("a{,.min}.js", "a.min.js"),
    ("a{,.min}.js", "a.js"),
    ("{a,{b,c}d}.py", "cd.py"),
    ("part{1..3}.txt", "part2.txt"),
    ("part{01..12}.txt", "part07.txt"),
    ("app/[id]/page.tsx", "app/[id]/page.tsx"),
    ("app/[id]/*.tsx", "app/[id]/page.tsx"),
    ("app/[id]", "app/[id]/deep/page.tsx"),
    ("app/[...slug]/**", "app/[...slug]/page.tsx"),
    ("app/[[...slug]]/page.tsx", "app/[[...slug]]/page.tsx"),
    ("**/[id]/*.{ts,tsx}", "web/app/[id]/page.tsx"),
    (r"app/\[id\]/page.tsx", "app/[id]/page.tsx"),
    (r"a\*.txt", "a*.txt"),
    ("{{cookiecutter.slug}}/*.py", "{{cookiecutter.slug}}/a.py"),
    ("{a,b}.py", "{a,b}.py"),
    ("a{b.py", "a{b.py"),
    ("what?.md", "what?.md"),
    (".", "src/a.py"),
    ("./", "src/a.py"),
    ("src//a.py", "src/a.py"),
    (".//src/./a.py", "src/a.py"),
    (unicodedata.normalize("NFC", "é/*.md"), unicodedata.normalize("NFD", "é/ü.md")),
    (unicodedata.normalize("NFD", "é/*.md"), unicodedata.normalize("NFC", "é/ü.md")),
    ("[z-a]*", "[z-a]b"),
)
NOT_MEANT = (
    ("**/*.{ts,tsx}", "src/c.py"),
    ("{src,tests}/*.py", "lib/a.py"),
    ("part{1..3}.txt", "part4.txt"),
    (r"app/\[id\]/page.tsx", "app/i/page.tsx"),
    (r"a\*.txt", "ab.txt"),
    ("app/[id]/page.tsx", "app/x/page.tsx"),
    (r"\{a,b}", "a"),
)


@pytest.mark.parametrize(("glob", "name"), MEANT)
def test_a_glob_means(glob: str, name: str) -> None:
    assert matches_any(name, [glob])


@pytest.mark.parametrize(("glob", "name"), NOT_MEANT)
def test_a_glob_does_not_mean(glob: str, name: str) -> None:
    assert not matches_any(name, [glob])


@pytest.mark.parametrize("glob", ["{a,b}" * 30, "{" * 30 + "a" + ",b}" * 30, "{" * 4_000, "{1..999999}", "[" * 4_000])
def test_a_glob_with_no_end_of_alternatives_is_taken_literally_at_once(glob: str) -> None:
    begun = time.process_time()
    assert matches_any(glob, [glob])
    assert len(expand_braces(glob)) <= 1_000
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("glob", "seen"),
    [
        ("src/*.py", "src/*.py"),
        ("/work/app/src/*.py", "src/*.py"),
        ("/work/app/", "."),
        ("/work/app", "."),
        ("/work/app/src/", "src/"),
        ("src/../lib/*", "lib/*"),
        ("../app/src", "src"),
        ("../other/*", "/work/other/*"),
        ("/work/application/*", "/work/application/*"),
        ("~/app/x", "x"),
    ],
)
def test_a_glob_is_seen_from_the_root(glob: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/work")
    assert relative_glob("/work/app", glob) == seen


@pytest.mark.parametrize(
    ("writes", "path"),
    [
        ("app/[id]/page.tsx", "app/[id]/page.tsx"),
        ("{src,lib}/*.py", "lib/a.py"),
        ("{root}/src/**", "src/a.py"),
        ("{original}/src/**", "src/a.py"),
        ("src/../lib/", "lib/a.py"),
        (".", "anything"),
    ],
)
def test_a_step_may_write_what_its_claims_mean(tmp_path: Path, writes: str, path: str) -> None:
    root, original = tmp_path / "copy", tmp_path / "original"
    claim = writes.replace("{root}", str(root)).replace("{original}", str(original))
    workspace = Workspace(root=root, stands_for=original, writes=(claim,))
    assert workspace.claim_problem(path, root / path) is None
    assert (workspace.claim_problem("no", root / "no") is None) == (writes == ".")


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("*.{env,key}", "a/b.key"),
        ("app/[id]/x", "app/[id]/x"),
        ("app/[id]", "app/[id]/x"),
        ("./private/**", "private/a"),
        ("private//./a", "Private/A"),
        ("caf\u00e9/*", "cafe\u0301/a"),
    ],
)
def test_a_list_of_denied_files_matches_however_it_is_spelled(glob: str, name: str) -> None:
    assert any_matches([name], [glob])
