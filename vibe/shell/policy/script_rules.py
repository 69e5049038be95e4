"""Decides which sed and awk scripts only print, reading them token by token. Unknown syntax counts as a doubt."""

from __future__ import annotations

import re
from collections.abc import Sequence

NO_SED = "runs a script that may do more than print lines"
NO_AWK = "runs a program that may do more than print"

REPEATED = re.compile(r"\{(?:\d+,)?(\d+),?\\?\}")
MOST_REPEATED = 10_000


def check_repeats(words: Sequence[str]) -> str:
    """Refuse patterns that repeat so often that a program runs out of memory when it compiles them."""
    for word in words:
        times = 1
        for count in REPEATED.findall(word):
            times *= max(int(count[:9]), 1)
            if times > MOST_REPEATED:
                return "is given a pattern that repeats too often"
    return ""


def _delimited(name: str, parts: int, *, regex: bool = True) -> str:
    """Return a regex for ``/part/`` or ``/part/part/`` with any delimiter.

    In a regex, bracket expressions are read as such in the first part. One that contains the delimiter doesn't match.
    """
    end = rf"(?P={name})"
    plain = rf"(?:\\[^\n]|(?!{end})[^\\\n])*+{end}"
    bracket = rf"\[\^?+\]?+(?:\[:[a-z]++:\]|\\[^\]\\\n]|(?!{end})[^\]\[\\\n])*+\]"
    first = rf"(?:\\[^\n]|(?!{end})[^\\\n\[]|{bracket})*+{end}" if regex else plain
    return rf"(?P<{name}>_|[^\\\n;{{}}\[\] \t\w]){first}{plain * (parts - 1)}"


SED_ENDS = r"[ \t]*+(?=[;\n}]|\Z)"
SED_REGEX = r"(?:\\|(?=/)){}[IM]*+"
SED_FIRST = rf"(?:\d++(?:~\d++)?+|\$|{SED_REGEX.format(_delimited('from', 1))})?+"
SED_SECOND = rf"(?:,(?:[+~]?+\d++|\$|{SED_REGEX.format(_delimited('to', 1))}))?+"
SED_COMMANDS = (
    r"(?P<open>\{)",
    rf"(?:(?P<advance>[nN])|[=dDgGhHpPxz]|[lqQ][ \t]*+\d*+){SED_ENDS}",
    r"(?:[btT][ \t]*+(?P<branch>\w*+)|(?P<label>:)[ \t]*+\w++)[ \t]*+(?=[;\n]|\Z)",
    rf"s{_delimited('by', 2)}[gpiImM\d]*+{SED_ENDS}",
    rf"y{_delimited('for', 2, regex=False)}{SED_ENDS}",
)
SED_STEP = re.compile(
    rf"[ \t;\n]*+(?:\Z|(?P<close>\}}){SED_ENDS}"
    rf"|(?P<address>{SED_FIRST}{SED_SECOND}[ \t]*+!?+[ \t]*+)(?:{'|'.join(SED_COMMANDS)}))"
)
"""A command that prints, replaces, deletes, branches or quits, or the end of a block or of the script."""


def check_sed(script: str) -> str:
    """Return what is wrong with a sed script, or "". It may only print, replace, delete, branch and quit."""
    return "" if _only_prints(script) and not check_repeats([script]) else NO_SED


def _only_prints(script: str) -> bool:
    at = depth = 0
    advances = False
    while at < len(script):
        found = SED_STEP.match(script, at)
        if found is None:
            return False
        at = found.end()
        # A branch back to a label is allowed only if each round reads a line. Otherwise it may never end.
        if found["branch"] and not advances:
            return False
        if found["advance"] and not found["address"] and not depth:
            advances = True
        elif found["label"]:
            advances = False
        depth += (found["open"] is not None) - (found["close"] is not None)
        if depth < 0:
            return False
    return depth == 0


AWK_REACHES = re.compile(
    r"system|getline|extension|ENVIRON|ARGV|ARGC|ARGIND|SYMTAB|FUNCTAB|PROCINFO|textdomain|gettext|LINT|@|\\\n|\r|\x00",
    re.IGNORECASE,
)
"""Words that run or read something else, or name what does.

They count inside strings too, which at worst leads to a needless question.
"""

AWK_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<text>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator>\+\+|--|\|\||&&|[-+*%^=!<>~]=|\^|[-+*%=!<>~?:,$\[\]();{}\n/|])
    """,
    re.VERBOSE | re.ASCII,
)
AWK_REGEX = re.compile(r"/(?!\*)(?:[^\\/\[\n]|\\[^\n]|\[\^?+\]?+(?:\[:[a-z]++:\]|[^\]\[\\/\n])*+\])*+/")
AWK_BEFORE_REGEX = frozenset({"", "{", "}", ";", "\n", "(", ",", "!", "~", "&&", "||"})
AWK_STATEMENT_ENDS = frozenset({";", "}"})
AWK_WORDS = frozenset({"do", "else", "in", "return", "exit", "print", "printf", "delete", "next", "nextfile", "case"})


AWK_LOOPS = re.compile(r"\b(?:while|do|func(?:tion)?)\b|%[^%a-zA-Z]*(?:\*|\d{4})", re.IGNORECASE)
AWK_COUNTED = re.compile(
    r"\bfor\s*\(\s*\w+\s+in\s+\w+\s*\)"
    r"|\bfor\s*\(\s*(\w+)\s*=\s*[\w$]+\s*;\s*\1\s*(?:<=?\s*(?:NF|NR|n|\d{1,7}|length\(\w*\))\s*;\s*(?:\1\+\+|\+\+\1)"
    r"|>=?\s*\d+\s*;\s*(?:\1--|--\1))\s*\)"
)
"""Loops that end: over an array, or counting."""


def check_awk(program: str) -> str:
    """Return what is wrong with an awk program, or "".

    It may not write to files, pipe, run anything, or read anything but its input.
    """
    if AWK_REACHES.search(program) or AWK_LOOPS.search(program) or check_repeats([program]):
        return NO_AWK
    if len(re.findall(r"\bfor\b", program)) != len(AWK_COUNTED.findall(program)):
        return NO_AWK
    at, before, printing = 0, "", False
    while at < len(program):
        regex = AWK_REGEX.match(program, at) if program[at] == "/" and before in AWK_BEFORE_REGEX else None
        token = regex or AWK_TOKEN.match(program, at)
        if token is None:
            return NO_AWK
        at = token.end()
        word = "/regex/" if regex else token[0]
        if not regex and token.lastgroup == "blank":
            continue
        if word == "|" or (printing and word in {">", ">="}) or (word == "/" and not _divides(before)):
            return NO_AWK
        if word == ">" and before == ">":
            return NO_AWK
        printing = word in {"print", "printf"} or (printing and word not in AWK_STATEMENT_ENDS)
        before = word
    return ""


def _divides(before: str) -> bool:
    """Return whether a slash after this token is a division in every awk."""
    return (before[:1].isalnum() or before[:1] in {"_", ".", "]"}) and before not in AWK_WORDS
