"""Finds commands in programs of other languages: ``os.system("vim")``, ``awk '{print | "vim"}'``, ``sed 'e vim'``.

This serves the deny list only. Commands that a program assembles or decodes while it runs can't be seen.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice

LANGUAGES = """
awk bc bun clisp cmake dc deno ed elixir erl escript ex expect ftp gawk ghc ghci gnuplot groovy guile iex ipython
irb jruby jshell julia lftp lua luajit m4 mariadb mawk mutt mysql nawk node nodejs octave osascript perl php psql
pypy python R racket red Rscript ruby runghc sbcl scala sftp sqlite3 sqlite tclsh texlua ts-node tsx wish
"""
SCRIPTED = frozenset(LANGUAGES.split())
"""Programs that take a script in their own language from an option, a word or their input."""
RECIPES = frozenset({"gmake", "just", "make"})

CALL = (
    r"(?:system[*2]?|exec\w*|spawn\w*|\w*open\d?|Popen|run|runInteractive\w*|call|check_call|check_output|getoutput|"
    r"getstatusoutput|shell|shell_exec|shell script|passthru|pcntl_exec|proc_open|execute|cmd|[Cc]ommand|capture\d?\w*|"
    r"ProcessBuilder|start|create_subprocess_\w+|readProcess|callProcess|callCommand|run-program|process|popen\d?|"
    r"startfile|syscmd|esyscmd|subprocess)"
)
CALLED = re.compile(rf"(?:\b|[_.:]){CALL}\b[\s(\[{{,=:.*&]*(?:\w+[\s(\[{{,=:.*&]+){{0,6}}$")
PIPED = re.compile(r"\|&?\s*$")
OUTPUT_READ = re.compile(r"\s*(?:\|&?\s*getline|\.execute\b|\.!|\.lineStream)")
PRINTED = re.compile(r"(?:print\w*|puts|say|echo|log|write\w*|warn|die|p)\s*\(?\s*$")
BETWEEN = re.compile(r"[\s,\[\](){}]*")
INDIRECT = re.compile(
    rf"\b{CALL}\s*+(?:\(\s*+)?[$@]?[A-Za-z_]|\b(?:system|popen|spawn\w*|exec\w*|call|run)\s+as\s|\bgetattr\b|"
    r"\|&?\s*[a-z]"
)
LITERALS = {
    "a": (r'"""', r'"""(.*?)"""'),
    "b": (r"'''", r"'''(.*?)'''"),
    "c": (r'"', r'"((?:[^"\\]|\\.)*+)"'),
    "d": (r"'", r"'((?:[^'\\]|\\.)*+)'"),
    "run": (r"`", r"`([^`']*+)[`']"),
    "run2": (r"\b(?:qx|%x)\s*+[({\[/|!]", r"\b(?:qx|%x)\s*+[({\[/|!]([^)}\]/|!]*+)"),
    "run3": (r"%x[({\[]", r"%x[({\[]([^)}\]]*+)"),
    "e": (r"(?:\bq[qw]?|%[qQwW])\s*+[({\[/|!<]", r"(?:\bq[qw]?|%[qQwW])\s*+[({\[/|!<]([^)}\]/|!>]*+)"),
    "f": (r"\[\[", r"\[\[(.*?)\]\]"),
}
"""Forms of a literal, in the order they are tried: a pattern for its beginning, and one for all of it."""
RUN_AS_TEXT = frozenset({"run", "run2", "run3"})
BARE = re.compile(
    r"(?:(?:^|[\s;{(\[])-?e?(?:exec|spawn|system|shell|\.shell|\.system|COMMAND|e?syscmd)\b|"
    r"^(?:[^\S\n]|[\d,])*+(?:\\!|!)|\\!)"
    r"(?:\s+-\w+)*\s*(?P<rest>[^\n;]*)",
    re.MULTILINE,
)
SED_RUN = re.compile(r"(?:^|[;{}\s\d$/!,])e\s*(?P<rest>[^\n]*)")
SED_REPLACES = re.compile(r"s(?P<by>[^\w\s\\])")
SED_RUNS = re.compile(r"[gpiImM0-9]*+e")
MAX_DELIMITERS = 32
"""Maximum number of different delimiters of ``s`` commands read in one sed script. No honest script has more."""
MAKE_SHELL = re.compile(r"\$[({]shell\s+(?P<rest>[^)}]*)")
MAX_LITERALS = 200
"""Maximum number of literals read in one program."""


def commands_in(text: str, values: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the shell text that a script may run. ``values`` are those of the variables the script is given."""
    yield from (found["rest"].strip(" \"'`(){}") for found in BARE.finditer(text))
    yield from (found["rest"] for found in BARE.finditer(text))
    indirect = INDIRECT.search(text) is not None
    argv: list[str] = []
    end = 0
    text = text.encode(errors="replace").decode()
    for form, found in islice(_literals(text), MAX_LITERALS + 1):
        lead, end = text[end : found.start()], found.end()
        content = re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
        if argv and BETWEEN.fullmatch(lead):
            argv.append(content)
            continue
        yield from _as_shell(argv)
        argv = []
        if form in RUN_AS_TEXT or CALLED.search(lead[-120:]) or PIPED.search(lead) or OUTPUT_READ.match(text, end):
            argv = [content]
        elif content.endswith("|") or (indirect and not PRINTED.search(lead)):
            yield content.rstrip("| ")
    yield from _as_shell(argv)
    yield from values if indirect else ()


def _literals(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield each literal of a text with the name of its form, in one pass.

    A form is given up once one of its literals does not end.
    """
    forms = dict(LITERALS)
    end = 0
    while begun := re.compile(_beginning(forms), re.ASCII).search(text, end):
        form = str(begun.lastgroup)
        found = re.compile(forms[form][1], re.ASCII | re.DOTALL).match(text, begun.start())
        if found is None:
            del forms[form]
        else:
            yield form, found
        end = begun.start() if found is None else found.end()


def _beginning(forms: Mapping[str, tuple[str, str]]) -> str:
    return "|".join(f"(?P<{form}>{begins})" for form, (begins, _) in forms.items())


def _as_shell(argv: list[str]) -> Iterator[str]:
    """Yield the first of the consecutive literals as shell text, and all of them as the words of a command."""
    if argv:
        words = argv[1:] if argv[0] in {"-|", "|-"} else argv
        yield argv[0]
        yield shlex.join(words)


def commands_in_sed(script: str) -> Iterator[str]:
    """Yield what the command ``e`` and the flag ``e`` of ``s`` run."""
    yield from _run_replacements(script)
    if not re.match(r"\s*[^\w\s]?s[^\w\s]", script):
        yield from (found["rest"] for found in SED_RUN.finditer(script))


def _run_replacements(script: str) -> Iterator[str]:
    """Yield the replacements that are run. Stop after ``MAX_DELIMITERS`` different delimiters."""
    parts: dict[str, re.Pattern[str]] = {}
    unended: set[str] = set()
    for found in SED_REPLACES.finditer(script):
        by = found["by"]
        if by in unended:
            continue
        if by not in parts:
            sign = re.escape(by)
            parts[by] = re.compile(rf"((?:[^\\{sign}]|\\.)*+){sign}", re.DOTALL)
        if len(parts) > MAX_DELIMITERS:
            return
        pattern = parts[by].match(script, found.end())
        replacement = parts[by].match(script, pattern.end()) if pattern else None
        if replacement is None:
            unended.add(by)
        elif SED_RUNS.match(script, replacement.end()):
            yield replacement[1]


def commands_in_recipes(text: str) -> Iterator[str]:
    """Yield the commands that the rules of a makefile run."""
    yield from (found["rest"] for found in MAKE_SHELL.finditer(text))
    for line in text.splitlines():
        rule, colon, rest = line.partition(":")
        yield line.strip("\t @+-")
        if colon and not rule.startswith("\t"):
            yield rest.lstrip("=; \t@+-")
