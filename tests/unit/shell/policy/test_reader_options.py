from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.unit.shell.policy import option_probe, shell_lab
from tests.unit.shell.policy.shell_lab import ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.option_parsing import Reader
from vibe.shell.policy.read_only_commands import READERS
from vibe.shell.policy.verdict import DEFAULT_ALLOWED, classify

BUILTINS = frozenset({"command", "history", "jobs", "test", "times", "type", "ulimit", "umask"})
"""Bash's own commands. None of their options takes a value."""

SILENT = frozenset({"awk", "gawk", "git submodule status", "pidof", "xxd"})
"""Programs that do not complain about unknown options. What ``xxd`` does with them is tried below."""

UNNAMED = (READERS["jq"], READERS["less"])
"""Programs that don't name the unknown letter among others."""

ENDS_AT_ONCE = frozenset({
    ("uptime", "-s"),
    ("uptime", "--since"),
    ("which", "-a"),
    ("git rev-parse", "--short"),
    ("git rev-parse", "--verify"),
    ("git diff", "--merge-base"),
})
"""Options whose programs answer, or complain of something else, before they look at the next word.

These options take no word.
"""

ANSWER: TypeAdapter[dict[str, tuple[bool, bool, str]] | None] = TypeAdapter(dict[str, tuple[bool, bool, str]] | None)
OTHER_NAMES = {"bat": "batcat", "fd": "fdfind"}
PROGRAMS = sorted(
    {name.split()[0] for name in READERS if not name.endswith(("--version", "-version", "-v"))} - BUILTINS
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    built = shell_lab.build(tmp_path_factory.mktemp("lab") / "lab")
    built.run("git stash")
    for stub in shell_lab.STUBS:
        (built.base / "bin" / stub).unlink()
    return built


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_of_the_tables_is_there_to_be_asked(program: str, lab: ShellLab) -> None:
    found = shutil.which(OTHER_NAMES.get(program, program), path=f"{lab.environ()['PATH']}:{os.environ['PATH']}")
    if found is None and "EVERY_PROGRAM" not in os.environ:
        pytest.skip(f"{program} is not installed; .ci/run installs it")
    assert found


@pytest.mark.timeout(180)
@pytest.mark.parametrize("half", [0, 1])
def test_options_take_what_the_tables_say(half: int, lab: ShellLab) -> None:
    rows = [
        (name, [option for option in row.options if option != "-#"]) for name, row in READERS.items() if row.options
    ]
    rows = [(name, options) for name, options in rows if shutil.which(name.split()[0], path=lab.environ()["PATH"])]
    rows = [(name, options) for name, options in rows if name.split()[0] not in BUILTINS][half::2]
    probe = lab.base / "probe.py"
    shutil.copy(option_probe.__file__, probe)
    asked = lab.base / f"rows{half}"
    asked.write_text("\n".join(json.dumps([name.split(), options]) for name, options in rows))
    ended = lab.start(sys.executable, "-I", str(probe), str(asked), seconds=150)
    said = [ANSWER.validate_json(line) for line in ended.stdout.splitlines()]
    answers = dict(zip((name for name, _ in rows), said, strict=True))
    assert {name for name, answer in answers.items() if answer is None} <= SILENT
    wrong = [
        f"{name} {option}: {problem}"
        for name, answer in answers.items()
        for option, (known, next_word, glued) in (answer or {}).items()
        if (name, option) not in ENDS_AT_ONCE
        if (problem := _problem(READERS[name], option, known=known, next_word=next_word, glued=glued))
    ]
    assert not wrong, wrong


def _problem(row: Reader, option: str, *, known: bool, next_word: bool, glued: str) -> str:
    mark = row.options[option]
    if not known:
        return "is not known"
    if (row is READERS["bat"] or row is READERS["fd"]) and mark == "=":
        return ""  # refuses an option where it expects a value
    if next_word is not (mark in {"=", ":"}):
        return "takes the next word" if next_word else "does not take the next word"
    if option.startswith("--") or mark == ":":
        return ""
    if mark:
        return "" if glued == "value" else f"is glued to {glued}"
    return "" if glued == "flags" or not row.clusters or row in UNNAMED else f"has {glued} glued to it"


def test_letters_together_that_are_not_named_are_read_one_by_one(lab: ShellLab) -> None:
    assert lab.run("less -NS a.txt") == lab.run("cat a.txt")
    assert "no -Z option" in lab.run("less -NSZ a.txt")
    assert lab.run("jq -rn '\"x\"'").strip() == "x"
    assert "x" not in lab.run("jq -rnz '\"x\"'").split()


WORDS = (
    "a.txt", "b.txt", "new", "1", "5", "-1", "-o", "new2", "-onew", "--output=new", "--output", "--", "-", "src", "HEAD", "x",
    "--outp=new", "-cols", "-l2", "-seek", "-r", "-ps", "-il", "-Lo", "-no", "-uo",
)  # fmt: skip


@pytest.mark.parametrize(
    "program",
    ["xxd", "sort", "uniq", "tree", "git log", "git show", "git diff", "git reflog", "git rev-list", "git blame", "git shortlog",
     "git describe", "git stash list", "git stash show", "git branch", "git tag"],
)  # fmt: skip
def test_no_words_that_run_unasked_make_a_program_write(program: str, lab: ShellLab) -> None:
    if shutil.which(program.split(maxsplit=1)[0], path=lab.environ()["PATH"]) is None:
        pytest.skip(f"{program} is not installed; .ci/run installs it")
    draw = random.Random(program)
    words = [*WORDS, *READERS[program].options]
    lines = {shlex.join([*program.split(), *draw.choices(words, k=draw.randint(1, 5))]) for _ in range(400)}
    workspace = Workspace(root=lab.work)
    unasked = [
        line
        for line in sorted(lines)
        if classify(line, DEFAULT_ALLOWED, (), workspace=workspace).permission is ToolPermission.ALWAYS
    ]
    assert len(unasked) > 10
    before = lab.state()
    script = Path(lab.base / "lines.sh")
    script.write_text("".join(f"{line} < /dev/null > /dev/null 2>&1\n" for line in unasked) + "echo came to the end\n")
    assert "came to the end\n" in lab.run(f"timeout 50 bash {script}")
    script.unlink()
    after = lab.state()
    assert after == before, sorted(set(after) ^ set(before))
