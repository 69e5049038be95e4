"""Resource limits hold for whatever runs a line, and a line can't tell that they were set before it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.shell.sandbox.cell import Cell
from vibe.shell.sandbox.port import LIMITS, ResourceLimits, bounded
from vibe.shell.sandbox.settings import SandboxConfig

BASH = "/usr/bin/bash"
SHOWN = "ulimit -Su; ulimit -Hu; ulimit -Sd; ulimit -Hd; ulimit -Sf; ulimit -Hf"
BOUNDS = SandboxConfig(max_processes=77, max_memory_mb=300, max_file_mb=5)
FOUND = ["77", "77", str(300 * 1024), str(300 * 1024), str(5 * 1024), str(5 * 1024)]

if not os.access(BASH, os.X_OK):
    pytest.skip("the bash of the system is what is tried", allow_module_level=True)


@pytest.fixture
def bounded_cell(bubblewrap: Cell) -> Cell:
    """Make a place with tight limits. Landlock has no namespace in which to count processes."""
    bubblewrap.configure(BOUNDS)
    return bubblewrap


async def test_a_line_is_bounded_by_the_shell_that_runs_it(bounded_cell: Cell) -> None:
    assert (await bounded_cell.run(SHOWN)).stdout.split() == FOUND
    assert (await bounded_cell.run("ulimit -f unlimited || ulimit -d unlimited || ulimit -u 78")).exit_code != 0


async def test_a_bash_of_the_workspace_runs_no_line_and_is_bounded_where_a_line_starts_it(bounded_cell: Cell) -> None:
    own = bounded_cell.root / "bash"
    own.write_text(f"#!/bin/sh\nexec {BASH} --norc -c '{SHOWN}'\n")
    own.chmod(0o755)
    bounded_cell.environ["PATH"] = f"{bounded_cell.root}:{bounded_cell.environ['PATH']}"

    assert (await bounded_cell.run("true")).stdout == ""
    assert (await bounded_cell.run("bash")).stdout.split() == FOUND


async def test_what_bash_runs_before_a_line_is_bounded_too(bounded_cell: Cell) -> None:
    (bounded_cell.root / "first").write_text(SHOWN)
    bounded_cell.environ["BASH_ENV"] = str(bounded_cell.root / "first")

    assert (await bounded_cell.run("true")).stdout.split() == FOUND


async def test_no_function_of_the_surroundings_stands_in_for_the_bounds(bounded_cell: Cell) -> None:
    bounded_cell.environ["BASH_FUNC_ulimit%%"] = "() {  :\n}"

    assert (await bounded_cell.run(f"unset -f ulimit; {SHOWN}")).stdout.split() == FOUND


async def test_a_bound_that_is_lower_already_stays(cell: Cell) -> None:
    cell.configure(SandboxConfig(max_file_mb=5))
    lower = bounded((BASH, "-c", "ulimit -f"), {}, ResourceLimits(file_mb=9))

    ended = await cell.run(f"ulimit -f 1024; {BASH} -c '{lower[2]}'; echo $?")

    assert ended.stdout.split() == ["1024", "0"]
    assert ended.stderr == ""


@dataclass(frozen=True, kw_only=True)
class Case:
    line: str
    rest: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


@pytest.mark.parametrize(
    "case",
    [
        Case(line="echo $?"),
        Case(line='echo "$0 $# $- $LINENO $BASHPID-$$" | sed "s/[0-9]*-[0-9]*//"'),
        Case(line='echo "$0 $# $*"', rest=("zero", "one", "two")),
        Case(line="no-such-program\nno-such-program"),
        Case(line="set -e\necho a\nfalse\necho b"),
        Case(line="echo a; exit 7"),
        Case(line="cat <<E\n$LINENO\nE\nno-such-program"),
        Case(line="# nothing"),
        Case(line="\n\nno-such-program # on the third line"),
        Case(line="echo a\nif"),
        Case(line="echo a\n; echo b"),
        Case(line="! true"),
        Case(line="trap 'echo $LINENO' EXIT; kill -TERM $$"),
        Case(line="exec 2>&1; no-such-program"),
        Case(line="shopt; set -o; trap; alias; declare -F"),
        Case(line="ulimit -n; umask; jobs; times > /dev/null; ls -l /proc/self/fd | wc -l"),
        Case(line="echo $GREETING; env | cut -d= -f1 | sort | grep -v ^_", environ={"GREETING": "hello"}),
    ],
    ids=lambda case: case.line[:30],
)
def test_a_line_does_what_it_does_without_bounds(tmp_path: Path, case: Case) -> None:
    plain = (BASH, "-c", case.line, *case.rest)
    quick = bounded(plain, case.environ, ResourceLimits(processes=4_096, memory_mb=16_384, file_mb=16_384))
    assert quick[0] == BASH
    ended = [_ended(argv, case.environ, tmp_path) for argv in (plain, quick)]
    assert ended[0] == ended[1]


@pytest.mark.parametrize("line", ["; echo b", "echo a )", "f() { ; }", "&& echo b"])
def test_what_a_shell_quotes_of_a_first_line_is_the_line_without_the_bounds(tmp_path: Path, line: str) -> None:
    quick = bounded((BASH, "-c", line), {}, ResourceLimits(processes=4_096, memory_mb=16_384, cpu_seconds=9))
    plain, limited = (_ended(argv, {}, tmp_path)[2].decode() for argv in ((BASH, "-c", line), quick))
    assert LIMITS.sub("", limited).splitlines()[-1] == plain.splitlines()[-1]
    assert LIMITS.sub("", plain) == plain


@pytest.mark.parametrize("line", ["; echo b", "| cat", "& echo b", ")", "}", "fi", "&& echo b"])
async def test_a_line_that_is_none_runs_nothing(cell: Cell, line: str) -> None:
    ended = await cell.run(line)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "line 1: syntax error" in ended.stderr


def _ended(argv: tuple[str, ...], environ: Mapping[str, str], cwd: Path) -> tuple[int, bytes, bytes]:
    surroundings = {"PATH": os.environ["PATH"], **environ}
    ended = subprocess.run(argv, env=surroundings, cwd=cwd, capture_output=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr
