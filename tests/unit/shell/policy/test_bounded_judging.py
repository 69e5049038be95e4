"""Judging any line ends soon, measured in counted work and in processor time."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from pathlib import Path
from time import thread_time

import pytest

from vibe.core.tools.base import ToolPermission
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.deny_rules import inspect
from vibe.shell.policy.parser import MAX_LINE, parse_line
from vibe.shell.policy.project_checks import covered_commands
from vibe.shell.policy.verdict import (
    DEFAULT_ALLOWED,
    DEFAULT_DENIED,
    DEFAULT_DENIED_STANDALONE,
    BashVerdict,
    ConfinedReading,
    classify,
)

SECONDS = 8.0
"""Processor time for a verdict on a slow machine, in seconds. Everything that is bounded ends within two or three."""
SIZES = (60, 250, MAX_LINE // 5, MAX_LINE)
PROGRAMS = (
    "{}", "echo {}", "echo '{}'", 'echo "{}"', "sed '{}' f", "sed 's/{}/x/' f", "sed -E 's/x/{}/e' f", "sed 's/[{}/x/' f", "awk '{}' f", "awk '/{}/' f",
    "awk 'BEGIN{{{}}}'", "grep -E '{}' f", "find . -name '{}'", "find . {}", "xargs {}", "git {}", "git log --format='{}'", "git config {}", "tr '{}' x", "jq '{}' f",
    "perl -e '{}'", "python3 -c '{}'", "make '{}'", "printf '{}'", "printf {}", "test {}", "[ {} ]", "[[ a =~ {} ]]", "[[ {} ]]", "case x in {}) ls;; esac", "ls {}", "x={}; echo $x",
    "x='{}'; $x", "echo ${{x:-{}}}", "echo ${{x//{}/b}}", "echo $(({}))", "a=({})", "a[{}]=1", "cat <<E\n{}\nE", "bash <<E\n{}\nE", "cat <<< '{}'", "bash -c '{}'", "env {}", "A={} ls",
    "sudo {}", "frobnicate {}", "crontab - <<E\n{}\nE", "at now <<< '{}'", "seq {}", "numfmt {}", "date -d '{}'", "XOPTS='{}' ls", "for i in {}; do ls; done", "nl {}", "{}=x ls", "set {}", "[{}", "expr {}",
)  # fmt: skip
UNITS = (
    "\\a", "\\", "a", "a ", "\\/", "/", "[", "]", "[]a]", "[[", "(", ")", "$(", "${", "$((", "`", '"', '\\"', "'\\''", "{", "}", "{a,", ",", "{,", "..", "*", "?", "**/", "$x", "$a", "$x ", "x=$x$x;",
    "| a", "|", "&& a", ";", "; ", "a=(", "a=b;", "a=b ", "<<a\n", "<<a ", "<(", ">&", "=", "=~ ", "-S ", "--", "- ", "_", "_.", ":", "a:", "\n", "\n\n", " ", "\t", "  ", "system", "system ", "run ", "exec ",
    "config ", "clone ", "run x", "foreach ", "s/", "s|s,", "e", "'''", "0", "00", "1+", "%", "%0", "\\n", "x{1,9}", "(a+)+", "é", "\u200b", "\ud800", "\0", "!", "a|", "))", "for ((", "function f ", "AOPTS=",
    "OPTS=", "if a;then ", "fi;", "do ", "case x in ", "$a 1;", "env ", "sudo -", "../", "./", "~/", "{1..9}", "@", "#", "qx", "\\\\\n",
)  # fmt: skip


def judged(line: str, workspace: Workspace) -> BashVerdict:
    parse_line.cache_clear()
    inspect.cache_clear()
    covered_commands(line)
    return classify(
        line,
        DEFAULT_ALLOWED,
        DEFAULT_DENIED,
        standalone=DEFAULT_DENIED_STANDALONE,
        workspace=workspace,
        confined=ConfinedReading.ALL,
    )


def random_lines(seed: int) -> Iterator[str]:
    """Yield long repetitions of one to three units, in every form of a program."""
    chance = random.Random(seed)
    for program in PROGRAMS:
        for size in SIZES:
            begin = "".join(chance.choices(UNITS, k=chance.randrange(3)))
            unit = "".join(chance.choices(UNITS, k=chance.randrange(1, 4)))
            yield program.format(begin + unit * (size // len(unit)))[: MAX_LINE - 1]


HOSTILE = (
    "sed 's/" + "\\a" * 40 + "/x/'", "sed -E 's/" + "\\(" * 17 + "/x/' f", "awk '/" + "[]a]" * 60 + "' f", "sed 's/" + "[]a]" * 60 + "' f",
    "x=ab; " + "x=$x$x; " * 30 + "echo $x", "x=ab; " + 'x="$x$x"; ' * 30 + "echo", "x=$'ab'; " + "x=${x}${x}; " * 60, "for a in " + "b " * 31 + "; do x=$a$a$a$a; " + "x=$x$x; " * 20 + "done",
    "x=" + "ab" * 8_000 + "; " + "echo $x; " * 1_500, "x='" + "a " * 8_000 + "'; " + "$x; " * 4_000, "; ".join(f"v{n}=$v{n - 1}$v{n - 1}" for n in range(900)),
    "[ " + " " * 20_000 + "a", "[ " + " a" * 10_000, "seq 1 " + "0" * 30_000 + "x 9", "perl -e 'system2" + " " * 30_000 + "'", "python3 -c '" + "[[" * 15_000 + "'", "awk '" + '\\"' * 15_000 + "'",
    "A" + "_" * 30_000 + "=1 ls", "frob " + "_" * 30_000 + "=x", "ls {" + "," * 30_000, "ls " + "{" * 9_000 + "," * 9_000, "s" + "[" * 30_000, "XOPTS=" + "OPTS=" * 6_000 + " ls", "frob " + "AOPTS=" * 5_000,
    "git " + "clone " * 5_000, "git " + "config " * 4_500, "; ".join(f"$a {n}" for n in range(5_000)), "frob " + " ".join(f"a{n}" for n in range(6_000)), "cat " + "<<a\n" * 8_000,
    "a|" * 16_000 + "b", "a=(" * 10_000, ")" * 32_000, "\0" * 32_000, ">&" * 16_000, "cat " + "s/" * 16_000, "cat " + " ".join(f"{'a,' * 40}{n}" for n in range(350)), "cat " + "a:" * 16_000, "cd " + "a/" * 16_000 + "; ls b",
    "crontab - <<E\n" + "\n" * 30_000 + "* \nE", "f() {" + "\n" * 30_000 + "$1; }", "unshare -" + "S" * 30_000 + "'\n'", "sed '" + "".join(f"s{chr(0x2190 + n)}" for n in range(6_000)) + "' f", "while a; do " * 45 + "b; " * 3_000 + "done; " * 45,
    "(" * 5_000 + ")" * 5_000, "$(" * 5_000 + ")" * 5_000, "{ " * 5_000 + "; }" * 5_000, "if a; then " * 2_000 + "b; " + "fi; " * 2_000, "bash -c '" * 2_000, "eval " * 6_000, "cat " + "* " * 8_000, "grep -r x " + ". " * 8_000,
)  # fmt: skip
"""Lines that took an old judge half a minute or more, all memory, or ended in an error, or nearly did."""


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_line_made_to_be_hard_to_judge_is_judged_soon(number: int, tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path)
    started = thread_time()
    judged(HOSTILE[number], workspace)
    assert thread_time() - started < SECONDS


@pytest.mark.parametrize("seed", range(4))
def test_repeats_in_the_words_of_any_program_are_judged_soon(seed: int, tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path)
    lines = list(random_lines(seed))
    for line in random.Random(seed).sample(lines, 40):
        started = thread_time()
        judged(line, workspace)
        assert thread_time() - started < SECONDS, (line[:80], len(line))


def test_a_judge_needs_little_memory() -> None:
    """The memory kept for a line is bounded by the line's length."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in (
        "x=ab; " + "x=$x$x; " * 30,
        "x='" + "a " * 8_000 + "'; " + "$x; " * 4_000,
        "cat " + "<<a\n" * 8_000 + "x" * 400,
    ):
        judged(line, Workspace(root=Path("/")))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


@pytest.mark.parametrize(
    "line", ["x=ab; y=$x$x; echo $y", "for i in {1..99}; do echo $i; done", "echo '" + "long " * 4_000 + "'"]
)
def test_what_is_large_but_plain_runs_unasked(line: str, tmp_path: Path) -> None:
    assert judged(line, Workspace(root=tmp_path)).permission is ToolPermission.ALWAYS


def test_of_too_many_values_each_is_looked_at(tmp_path: Path) -> None:
    line = "for p in ls cat wc pwd tac nl cut vim; do for q in a b c d e; do $p $q; done; done"
    verdict = judged(line, Workspace(root=tmp_path))
    assert verdict.permission is ToolPermission.NEVER
    assert "vim" in verdict.reason
    assert not judged(line.replace("vim", "pwn"), Workspace(root=tmp_path)).read_only
