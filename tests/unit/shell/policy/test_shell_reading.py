"""Our reading of a line is the same as bash's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from vibe.shell.policy.parser import parse_line

PARTS = (
    "a", '"b"', "'c'", '"$x"', "$x", '"$x $y"', '" $x"', '"$y "', '"a$x b"', "${x}", '"${x} "', '"\\$x"', '"$((1+2)) $((3%2))"', 'a"$y"b', '"`"', '"a  $x  $y  b"',
    "'$x'", "$y$x", '"\t$x"', '"$x\n$y"', '"\\\\$x"', '"\\"$x"', '"$x"" $y"', '"${#x} $x"', '"a!"', '"~"', '"*"', '"$x{a,b}"', "$z", '"$z"', "${y%s}", '"${y#r} "', '"$(echo "$y")"',
)  # fmt: skip
WORDS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join)
PROGRAMS = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


@settings(max_examples=150, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=3))
def test_a_word_that_is_known_is_what_bash_passes(words: list[str]) -> None:
    line = f"x=q; y='r s'; for z in u 'v w'; do printf '%s\\0' {' '.join(words)}; done"
    parsed = parse_line(line)
    if parsed.surprises:
        return
    ended = subprocess.run(["bash", "-c", line], env=PROGRAMS, capture_output=True, check=True)
    passed = ended.stdout.decode().split("\0")[:-1]
    readings = [command.words[2:] for command in parsed.commands if command.argv[:1] == ("printf",)]
    for group in (passed[: len(words)], passed[len(words) :]):
        assert any(
            len(reading) == len(group)
            and all(
                word.text is None or word.pattern or word.text == text
                for word, text in zip(reading, group, strict=True)
            )
            for reading in readings
        ), (line, readings, passed)


STEPS = st.recursive(
    st.sampled_from([
        "cd a",
        "cd ..",
        "cd b",
        "cd missing",
        "cd ./a/b",
        "pwd -P",
        "true",
        "false",
        "exit",
        "exit 1 2",
        ":",
    ]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" && ", " || ", "; ", " | ", "\n"]), inner).map("".join),
        inner.map(lambda line: f"( {line} )"),
        inner.map(lambda line: f"{{ {line}; }}"),
        inner.map(lambda line: f'echo "$({line})"'),
        inner.map(lambda line: f"for i in 1 2; do {line}; done"),
        st.tuples(inner, inner, inner).map(lambda parts: "if {}; then {}; else {}; fi".format(*parts)),
        st.tuples(inner, inner).map(lambda parts: "case x in y) {};; *) {};; esac".format(*parts)),
    ),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("places") / "root" / "root"
    (base / "a" / "b").mkdir(parents=True)
    (base / "b").mkdir()
    return base


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=STEPS)
def test_every_place_where_bash_would_be_is_among_those_we_see(line: str, folder: Path) -> None:
    parsed = parse_line(line)
    if parsed.surprises:
        return
    seen: set[str] = set()
    for command in parsed.commands:
        for place in command.places or {()}:
            reached = folder
            for step in place:
                reached = Path(os.path.normpath(reached / step))
                if not reached.is_dir():
                    return  # such a line is asked about
            if command.argv == ("pwd", "-P"):
                seen.add(str(reached))
    ended = subprocess.run(["bash", "-c", line], cwd=folder, env=PROGRAMS, capture_output=True, check=False)
    assert {text for text in ended.stdout.decode().split() if text.startswith("/")} <= seen, line
