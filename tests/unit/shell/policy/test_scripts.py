from __future__ import annotations

import os
import random
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.bash_everyday_lines import LOOKING
from tests.unit.shell.policy.shell_lab import ShellLab
from vibe.shell.policy.script_rules import check_awk, check_sed

SED = ("w new", "e pwn", "r .env", "W new", "R .env", "s/", "/", "/", "\\", "[", "]", "^", "p", "d", ";", ";", "\n", "{", "}", "1", "$", ",", "!",
       "s|", "|", "x", "y/", "g", "w", "e", "/o/", "\\,", ",", "[[:alpha:]", "[/]", "[^]/]", "\\/", "a", "b", ":a", "b a;", "n", "N", "&", "#",
       "s,o,0,", "s/o/0/", "/x/!", "0~2", "+1", "I", "l 1", "q")  # fmt: skip
AWK = ("print", "print ", "printf ", '"new"', ">", ">", ">>", "|", '"pwn"', "/", "/", "[", "]", "/x/", "[/]", "[[:a:]/]", "\\/", "\\", '"', '\\"', "{",
       "}", "(", ")", "$1", "x", "1", ";", "\n", ",", "!", "~", "&&", "||", "=", "/=", " in ", "else ", "if (x) ", "return ", "#", "do ", "++", "?",
       ":", " ", "BEGIN ", "length", "function f(x) ", "exit", "2 ", "getline", "printf", "\"a\" ")  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    return shell_lab.build(tmp_path_factory.mktemp("lab") / "lab")


def scripts(program: str, tokens: Sequence[str], check: Callable[[str], str]) -> list[str]:
    """Return scripts that are judged to print only: random ones, and everyday ones with random pieces inserted."""
    draw = random.Random(program)
    known = [shlex.split(line)[1:] for line in LOOKING if re.match(rf"{program} '", line)]
    found = {"".join(draw.choices(tokens, k=draw.randint(1, 9))) for _ in range(15_000)}
    for words in known:
        for _ in range(400):
            script = words[0]
            for _ in range(draw.randint(1, 3)):
                at = draw.randint(0, len(script))
                script = script[:at] + draw.choice(tokens) + script[at:]
            found.add(script)
    return (
        draw.sample(accepted, min(len(accepted), 250)) if (accepted := sorted(s for s in found if not check(s))) else []
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("program", "tokens", "check", "oracle"),
    [
        ("sed", SED, check_sed, "sed --sandbox"),
        ("awk", AWK, check_awk, "gawk --sandbox"),
        ("awk", AWK, check_awk, "mawk"),
    ],
)
def test_no_script_that_passes_does_more_than_print(
    program: str, tokens: Sequence[str], check: Callable[[str], str], oracle: str, lab: ShellLab
) -> None:
    plain = oracle.split(maxsplit=1)[0]
    if shutil.which(plain, path=lab.environ()["PATH"]) is None and "EVERY_PROGRAM" not in os.environ:
        pytest.skip(f"{plain} is not installed")
    passed = scripts(program, tokens, check)
    assert len(passed) > 200
    before = lab.state()
    lines = [
        f"timeout 2 {command} {shlex.quote(script)} a.txt b.txt </dev/null"
        for script in passed
        for command in (oracle, plain)
    ]
    file = Path(lab.base / "lines.sh")
    file.write_text(
        "shopt -s nocasematch\n"
        + "".join(
            f"IFS= read -rN 300 -d '' said < <({line} 2>&1); wait $!\n"
            f"[[ $said == *sandbox* || $said == *SECRET-* ]] && printf '%s\\n' {shlex.quote(line)}\n"
            for line in lines
        )
        + "echo came to the end\n"
    )
    ended = lab.start("bash", str(file), seconds=100)
    file.unlink()
    assert ended.stdout == b"came to the end\n"
    assert lab.state() == before


@pytest.mark.parametrize("script", ["s/a/b/w new", "1w new", "s/.*/pwn/e", "r .env", "e", "p;W x", "{p;R x\n}"])
def test_what_the_sandbox_of_sed_refuses_is_asked_about(script: str, lab: ShellLab) -> None:
    assert "sandbox" in lab.run(f"sed --sandbox {shlex.quote(script)} a.txt")
    assert check_sed(script)


@pytest.mark.parametrize("script", ["{p", "p}", "s/a/b", "a x", "#n", "}", "s/[/]/x/", "y/a", "1,", ":"])
def test_what_is_not_understood_is_asked_about(script: str) -> None:
    assert check_sed(script)
