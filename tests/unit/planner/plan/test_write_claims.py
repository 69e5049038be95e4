"""Which globs can overlap. When in doubt, they do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from planner.plan.write_claims import ANYWHERE, globs_overlap, parse_glob
from vibe.core.modes import ONLY_READING
from vibe.core.tools.discovery import builtin_tools

APART = [
    ("src/a.py", "src/b.py"),
    ("src/**", "docs/**"),
    ("src/*.py", "src/*.md"),
    ("src/**/*.py", "**/*.md"),
    ("src/a*", "src/b*"),
    ("src/test_*.py", "src/code_*.py"),
    ("README.md", "docs/README.md"),
    ("*.md", "src/main.py"),
    ("src/a/**", "src/b/**"),
    ("src/[ab].py", "src/c.py"),
]
TOGETHER = [
    ("src/a.py", "src/a.py"),
    ("src", "src/a.py"),
    ("src/", "src/deep/er/a.py"),
    ("./src/a.py", "src//a.py"),
    ("src/**", "src/a.py"),
    ("**", "anything/at/all"),
    ("**/test_*.py", "src/deep/test_a.py"),
    ("src/**/*.py", "src/pkg"),
    ("src/*/x", "src/a/*"),
    ("src/A.py", "src/a.PY"),
    ("/etc/hosts", "src/a"),
    ("../x", "src/a"),
    ("~/x", "src/a"),
    ("src/{a,b}.py", "docs/c"),
    ("src\\a.py", "docs/c"),
    ("!src/a.py", "docs/c"),
    ("src**.py", "src/deep/a.py"),
    (".", "src/a"),
    ("src/cafe\u0301", "src/caf\u00e9"),
    ("src/[!a].py", "src/b.py"),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_globs_that_are_apart(one: str, other: str) -> None:
    assert not globs_overlap(parse_glob(one), parse_glob(other))
    assert not globs_overlap(parse_glob(other), parse_glob(one))


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_globs_that_meet_or_may(one: str, other: str) -> None:
    assert globs_overlap(parse_glob(one), parse_glob(other))
    assert globs_overlap(parse_glob(other), parse_glob(one))


NAMES = st.text("ab.*?", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
GLOBS = st.lists(st.one_of(st.just("**"), NAMES), min_size=1, max_size=4).map("/".join)


def fits(path: tuple[str, ...], glob: tuple[str, ...]) -> bool:
    """Return True if a glob covers a path, by the plain definition."""
    from fnmatch import fnmatchcase  # noqa: PLC0415  only this reference implementation uses it

    if not glob:
        return True
    if glob[0] == "**":
        return any(fits(path[skip:], glob[1:]) for skip in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], glob[0]) and fits(path[1:], glob[1:])


@settings(max_examples=300, deadline=None)
@given(one=GLOBS, other=GLOBS, path=st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=4))
def test_globs_that_cover_one_file_overlap(one: str, other: str, path: list[str]) -> None:
    first, second = parse_glob(one), parse_glob(other)
    assert globs_overlap(first, first)
    assert globs_overlap(first, second) == globs_overlap(second, first)
    assert globs_overlap(first, ANYWHERE)
    is_file_below_a_file = any("." in name for name in path[:-1])
    if not is_file_below_a_file and fits(tuple(path), first) and fits(tuple(path), second):
        assert globs_overlap(first, second)


def test_the_tools_a_plan_takes_for_readers_are_those_that_say_so() -> None:
    assert {tool.get_name() for tool in builtin_tools() if tool.read_only} == ONLY_READING
