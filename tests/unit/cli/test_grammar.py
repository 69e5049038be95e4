"""Covers ``vibe.cli.grammar``: its help, and arguments that mean nothing by themselves."""

from __future__ import annotations

import shlex

import pytest

from vibe.cli.environment import Arguments
from vibe.cli.grammar import GRAMMAR, read_words
from vibe.cli.parser import CommandLineError, TextRequested


@pytest.mark.parametrize("line", ["", *GRAMMAR])
def test_help_fits_eighty_columns(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    with pytest.raises(TextRequested) as shown:
        read_words([*line.split(), "--help"], Arguments())

    assert [long for long in shown.value.text.splitlines() if len(long) > 80] == []


@pytest.mark.parametrize("line", GRAMMAR)
def test_help_says_what_the_command_does(line: str) -> None:
    with pytest.raises(TextRequested) as shown:
        read_words([*line.split(), "--help"], Arguments())

    about = GRAMMAR[line].about
    _, described, *_ = shown.value.text.split("\n\n")
    assert " ".join(described.split()) == f"{about[0].upper()}{about[1:]}."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("dashboard some-run", "RUN goes with --web: add it"),
        ("dashboard --follow --port 8000", "--port goes with --web: add it"),
        ("dashboard --control", "--control goes with --web: add it"),
        ("plan status latest --page 2", "--page goes with STEP: add it"),
        ("plan review latest --diff --force", "--force goes with --reject: add it"),
        ("plan edit latest --max-tokens 5 --yes", "--yes goes with --ask: add it"),
    ],
)
def test_an_argument_that_means_nothing_by_itself_is_not_ignored(line: str, sentence: str) -> None:
    with pytest.raises(CommandLineError, match=f"^{sentence}$"):
        read_words(line.split(), Arguments())


@pytest.mark.parametrize(
    "line",
    [
        "dashboard --web some-run --port 8000 --control --allow-host a --name b --open",
        "plan status latest step --page 2",
        "plan review latest --reject a.txt --force",
        "plan edit latest --yes --ask More",
    ],
)
def test_beside_what_it_goes_with_it_is_taken(line: str) -> None:
    read_words(line.split(), Arguments())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--cwd /tmp -p hi", "there is no --cwd: use --workdir"),
        ("-p hi --yes", "there is no --yes: use --auto-approve"),
        ("--print hi", "there is no --print: use -p"),
        ("plan list --json", "there is no --json: use --output json"),
        ("plan 'Add a login page'", "`vibe plan` needs a command before 'Add a login page': `new` for a goal"),
        ("plan plans/tidy.json --dry-run", "before 'plans/tidy.json': `new` for a goal, `run` for a file"),
        ("plan lst", "unknown command 'lst': did you mean 'list'?"),
        ("session resume latest", "unknown command 'resume': use `vibe --resume ID`"),
    ],
)
def test_words_of_similar_programs_are_answered_with_ours(line: str, sentence: str) -> None:
    with pytest.raises(CommandLineError) as refused:
        read_words(shlex.split(line), Arguments())

    assert sentence in str(refused.value)
