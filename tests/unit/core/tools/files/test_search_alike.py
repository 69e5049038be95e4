"""The two ways to search give the same answers, for random trees and patterns, and for cases that once differed."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from vibe.core.tools.files.search import Found, Query, scan, search_with_ripgrep
from vibe.system.ignore import Ignores
from vibe.system.programs import find_ripgrep

NAMES = ("a.py", "b.txt", ".hidden", "build", "src", "notes.md", "x.log", "[id]", "é.txt", "dist", "UPPER.TXT", "sub")
LINES = (
    b"needle", b"a needle here", b"needle  ", b"Needle", b"", b"caf\xe9 needle", "café needle".encode(), b"x = needle(1)",
    b"\xe9\xe8 \xff", "日本 needle".encode(), b"\tneedle\t", b"need\x0cle", b"x" * 700 + b"needle" + b"y" * 700,
    b"\xe9" * 900 + b"needle" + b"z" * 3_000, "é".encode() * 1_200 + b"needle", b"needle \x80", b"[id] {a,b} $HOME",
)  # fmt: skip
PATTERNS = (
    "needle", "needle$", "^needle", "^needle$", "^$", "(?i)needle", "needle.", "caf.", "café", r"\bneedle\b", "n.*e",
    r"[^a-z]needle", r"needle\s*$", r"\w+ needle", "é", "x+needle", r"needle\(", "nee(dle|d)", "[[:alpha:]]+ =", r"\p{L}\(",
    "(?<=a )needle", "need(?!le)", r"\$HOME", r"\d", "needle|é", r"\S$", ".", "zz",
)  # fmt: skip
IGNORES = (
    "build/\n",
    "*.log\n!x.log\n",
    "/src\n",
    "sub/\nnotes.md\n",
    "# nothing\n",
    "src/*.py\n",
    "**/b.txt\n",
    "!a.py\n",
    "!src/\n!build\n",
)
IGNORE_FILES = (
    ".gitignore",
    ".ignore",
    ".rgignore",
    ".vibeignore",
    "src/.gitignore",
    "sub/.ignore",
    ".git/info/exclude",
)


def drawn_tree(root: Path, draw: random.Random) -> list[Path]:
    for _ in range(draw.randint(3, 14)):
        file = root.joinpath(*draw.choices(NAMES, k=draw.randint(1, 3)))
        if any(parent.is_file() for parent in file.parents) or file.is_dir():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(drawn_text(draw))
    for name in draw.sample(IGNORE_FILES, k=draw.randint(0, 3)):
        file = root / name
        if not any(parent.is_file() for parent in file.parents):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw.choice(IGNORES))
    if draw.random() < 0.2:
        subprocess.run(
            ["git", "init", "-q", "--template=", draw.choice([root, root / "sub"])], check=False, capture_output=True
        )
    if draw.random() < 0.3:
        (root / "link").symlink_to("src")
    return [root, *(entry for entry in sorted(root.rglob("*")) if not entry.is_symlink())]


def drawn_text(draw: random.Random) -> bytes:
    end = draw.choice([b"\n", b"\n", b"\r\n", b"\r"])
    text = end.join(draw.choices(LINES, k=draw.randint(1, 8))) + draw.choice([b"", end])
    kind = draw.random()
    if kind < 0.1:
        return text + b"\0" * draw.randint(1, 3) + b"\nneedle\n"
    if kind < 0.2:
        return b"\xef\xbb\xbf" + text
    if kind < 0.3:
        return text.decode(errors="ignore").encode("utf-16")
    return text


@pytest.mark.parametrize("seed", range(8))
async def test_both_find_the_same_in_any_tree(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    for number in range(4):
        root = tmp_path / str(number)
        root.mkdir()
        places = await to_thread.run_sync(drawn_tree, root, draw)
        for pattern in draw.sample(PATTERNS, k=4):
            query = Query(
                pattern=pattern,
                root=root,
                start=draw.choice([root, root, draw.choice(places)]),
                use_ignores=draw.random() < 0.8,
                most=200,
                max_bytes=1_000_000,
                ignores=draw.choice([Ignores(), Ignores(names=("dist",)), Ignores(names=("src/*.py", "x.log/"))]),
            )
            theirs = await search_with_ripgrep(ripgrep, query)
            ours = await to_thread.run_sync(scan, query)
            assert lines(theirs, query) == lines(ours, query), query


def lines(found: Found, query: Query) -> list[str]:
    return [match.line() for match in found.matches[: query.most]]


FILES = {
    "crlf.txt": b"foo\r\nneedle\r\n",
    "latin.txt": b"caf\xe9 needle\n",
    "build/b.txt": b"needle\n",
    "private/p.txt": b"needle\n",
    "sub/.git/config": b"needle\n",
    ".git/info/exclude": b"private/\n",
    ".gitignore": b"build/\n",
    "late.bin": b"needle\n" + b"x\n" * 100_000 + b"\0\n",
    "min.js": b"x" * 90_000 + b"needle" + b"y" * 90_000 + b"\n",
    "[odd]/x.py": b"needle\n",
    "state/s.txt": b"needle\n",
    "cr.txt": b"needle\rx\n",
    "zz.txt": b"needlez\n",
    "mac.txt": b"a\ra hay\rthe hay\r",
    "crcr/a.txt": b"y\r\r\n\ny\r\r\n",
    "crcr/b.txt": b"z\n\n",
    "long.mac.txt": b"a" * 9_000 + b"\rthe hay\r",
    "wide/long.txt": ("a" * 9_000 + "\rthe oats\r").encode("utf-16"),
    "wide/mac.txt": "a\roat\u00e9s\rthe oats\r".encode("utf-16"),
}
ONCE_DIFFERENT: tuple[tuple[str, str, list[str]], ...] = (
    ("needle$", "", ["[odd]/x.py:1", "crlf.txt:2", "latin.txt:1"]),
    ("caf\u00e9", "", ["latin.txt:1"]),
    ("caf. n", "", ["latin.txt:1"]),
    ("needle", "build", ["build/b.txt:1"]),
    ("needle", "private", ["private/p.txt:1"]),
    ("needle", "late.bin", []),
    ("needle(?=[yz])", "", ["min.js:1", "zz.txt:1"]),
    ("(?s)needle.x", "", ["cr.txt:1"]),
    ("needle", "state", ["state/s.txt:1"]),
    ("hay$", "", ["long.mac.txt:2", "mac.txt:2", "mac.txt:3"]),
    ("^$", "", ["crcr/a.txt:2", "crcr/b.txt:2"]),
    ("^th.", "", ["long.mac.txt:2", "mac.txt:3", "wide/long.txt:2", "wide/mac.txt:3"]),
    ("oats$", "", ["wide/long.txt:2", "wide/mac.txt:3"]),
    ("oat", "wide/mac.txt", ["wide/mac.txt:2", "wide/mac.txt:3"]),
)


@pytest.mark.parametrize("way", ["ripgrep", "python"])
@pytest.mark.parametrize(("pattern", "place", "expected"), ONCE_DIFFERENT)
async def test_there_is_one_answer(tmp_path: Path, way: str, pattern: str, place: str, expected: list[str]) -> None:
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    ignores = Ignores(names=("nothing",))
    root, own = tmp_path, (tmp_path / "state",)
    query = Query(
        pattern=pattern,
        root=root,
        start=root / place,
        use_ignores=True,
        most=50,
        max_bytes=64_000,
        ignores=ignores,
        own=own,
    )
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    found = await (search_with_ripgrep(ripgrep, query) if way == "ripgrep" else to_thread.run_sync(scan, query))
    assert [f"{match.path}:{match.number}" for match in found.matches] == expected


OPENED: tuple[tuple[dict[str, str], list[str]], ...] = (
    ({".gitignore": "*\n!*/\n!*.py\n"}, ["a.py", "src/a.py", "src/sub/a.py"]),
    ({".gitignore": "*\n!src/\n"}, []),
    ({".gitignore": "\ufeffsrc/\r\n!b.txt\r\n"}, ["a.py", "b.txt"]),
    ({".gitignore": "/*\n!/src/\n"}, ["src/a.py", "src/b.txt", "src/sub/a.py", "src/sub/b.txt"]),
    ({".gitignore": "src/**\n!src/b.txt\n"}, ["a.py", "b.txt", "src/b.txt"]),
    ({".gitignore": "src/\n", ".ignore": "!src/\n"}, ["a.py", "b.txt", "src/a.py", "src/b.txt", "src/sub/a.py", "src/sub/b.txt"]),
    ({".gitignore": "*.txt\n", ".ignore": "!src/\n"}, ["a.py", "src/a.py", "src/sub/a.py"]),
    ({".gitignore": "*.txt\n", ".ignore": "!src/**\n"}, ["a.py", "src/a.py", "src/b.txt", "src/sub/a.py", "src/sub/b.txt"]),
    ({".gitignore": "sub/\n!src/*/\n"}, ["a.py", "b.txt", "src/a.py", "src/b.txt", "src/sub/a.py", "src/sub/b.txt"]),
)  # fmt: skip


@pytest.mark.parametrize(("rules", "expected"), OPENED)
async def test_rules_that_open_a_folder_do_not_open_what_others_ignore_in_it(
    tmp_path: Path, rules: dict[str, str], expected: list[str]
) -> None:
    for name in ("a.py", "b.txt", "src/a.py", "src/b.txt", "src/sub/a.py", "src/sub/b.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    for name, text in rules.items():
        (tmp_path / name).write_text(text)
    query = Query(pattern="needle", root=tmp_path, start=tmp_path, use_ignores=True, most=50, max_bytes=64_000)
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    theirs, ours = await search_with_ripgrep(ripgrep, query), await to_thread.run_sync(scan, query)
    assert [match.path for match in theirs.matches] == [match.path for match in ours.matches] == expected


@pytest.mark.parametrize("way", ["ripgrep", "python"])
async def test_what_a_repository_around_it_ignores_is_found_in_a_repository(tmp_path: Path, way: str) -> None:
    root = tmp_path / "home" / "project"
    (root / "inner").mkdir(parents=True)
    (root.parent / ".gitignore").write_text("*\n")
    (root / ".gitignore").write_text("*.log\n")
    for place in (root.parent, root, root / "inner"):
        (place / ".git").mkdir()
    for name in ("a.py", "a.log", "inner/b.py", "inner/b.log"):
        (root / name).write_text("needle\n")
    query = Query(pattern="needle", root=root, start=root, use_ignores=True, most=9, max_bytes=9_000)
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    found = await (search_with_ripgrep(ripgrep, query) if way == "ripgrep" else to_thread.run_sync(scan, query))
    assert [match.path for match in found.matches] == ["a.py", "inner/b.log", "inner/b.py"]


@pytest.mark.parametrize("way", ["ripgrep", "python"])
async def test_a_folder_in_one_that_ignores_all_it_has_is_searched_if_named(tmp_path: Path, way: str) -> None:
    folder = tmp_path / ".venv" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / ".venv" / ".gitignore").write_text("*\n")
    (folder / "a.py").write_text("needle\n")
    query = Query(pattern="needle", root=tmp_path, start=folder, use_ignores=True, most=50, max_bytes=50_000)
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    found = await (search_with_ripgrep(ripgrep, query) if way == "ripgrep" else to_thread.run_sync(scan, query))
    assert [match.line() for match in found.matches] == [".venv/lib/a.py:1:needle"]


@pytest.mark.parametrize("way", ["ripgrep", "python"])
async def test_of_a_long_line_the_part_around_the_match_is_shown(tmp_path: Path, way: str) -> None:
    (tmp_path / "one.json").write_bytes(b"a" * 50_000 + "é needle é".encode() + b"b" * 50_000)
    query = Query(pattern="needle", root=tmp_path, start=tmp_path, use_ignores=True, most=9, max_bytes=9_000)
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    found = await (search_with_ripgrep(ripgrep, query) if way == "ripgrep" else to_thread.run_sync(scan, query))
    (match,) = found.matches
    assert match.text.startswith("…aaa")
    assert "aé needle éb" in match.text
    assert len(match.text) <= 502


async def test_what_a_link_leads_to_that_others_put_in_place_of_a_folder_is_not_shown(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder, text in ((root / "sub", "needle here\n"), (outside, "needle outside\n")):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(text)
    ripgrep = find_ripgrep(os.environ)
    assert ripgrep
    swapping = tmp_path / "rg"
    swapping.write_text(f'#!/bin/sh\nmv sub kept\nln -s {outside} sub\n{ripgrep} "$@"\nrm sub\nmv kept sub\n')
    swapping.chmod(0o755)
    query = Query(pattern="needle", root=root, start=root / "sub", use_ignores=True, most=9, max_bytes=9_000)

    assert lines(await search_with_ripgrep(str(swapping), query), query) == []
    assert lines(await search_with_ripgrep(ripgrep, query), query) == ["sub/a.txt:1:needle here"]
