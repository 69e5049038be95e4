"""Which scripts of sed and awk only print: read token by token; what is not understood is doubted."""

from __future__ import annotations

import re
from collections.abc import Sequence

NO_SED = "runs a script that may do more than print lines"
NO_AWK = "runs a program that may do more than print"

SED_NUMBER = re.compile(r"\d+(?:~\d+)?|\$")
SED_SECOND = re.compile(r"[+~]?\d+|\$")
SED_PLAIN = frozenset("=dDgGhHnNpPxz{")
SED_COUNTED = frozenset("lqQ")
SED_BRANCHES = frozenset("btT")
SED_FLAGS = re.compile(r"[gpiImM\d]*+")
SED_LABEL = re.compile(r"[ \t]*+(\w*+)[ \t]*+(?=[;\n]|$)")
SED_BLANK = re.compile(r"[ \t;\n]*")


REPEATED = re.compile(r"\{(?:\d+,)?(\d+),?\\?\}")
MOST_REPEATED = 10_000


def check_repeats(words: Sequence[str]) -> str:
    """Return whether a pattern repeats so much that a program takes all memory to read it."""
    for word in words:
        times = 1
        for count in REPEATED.findall(word):
            times *= max(int(count[:9]), 1)
            if times > MOST_REPEATED:
                return "is given a pattern that repeats too often"
    return ""


def check_sed(script: str) -> str:
    """Return what is wrong with a sed script: anything but printing, replacing, deleting, branching and quitting."""
    return "" if _SedScript(script).only_prints() and not check_repeats([script]) else NO_SED


class _SedScript:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._advances = False

    def only_prints(self) -> bool:
        while self._skip(SED_BLANK) is not None and self._at < len(self._text):
            if self._text[self._at] == "}":
                self._depth -= 1
                self._at += 1
                if self._depth < 0 or not self._ends():
                    return False
                continue
            start = self._at
            if not self._address():
                return False
            if self._text[self._at : self._at + 1] in {"N", "n"} and self._at == start and not self._depth:
                self._advances = True
            if not self._command():
                return False
            self._depth += self._text[self._at - 1] == "{"
        return self._depth == 0

    def _skip(self, pattern: re.Pattern[str]) -> str | None:
        """Move over what matches here, and return it."""
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _address(self) -> bool:
        """Move over an address, if there is one."""
        if self._regex_address() is False:
            return False
        if self._text[self._at : self._at + 1] == ",":
            self._at += 1
            if self._skip(SED_SECOND) is None and self._regex_address() is not True:
                return False
        self._skip(re.compile(r"[ \t]*!?[ \t]*"))
        return True

    def _regex_address(self) -> bool | None:
        """Return whether an address is well formed; None if there is none."""
        if self._skip(SED_NUMBER) is not None:
            return True
        if self._text.startswith("\\", self._at):
            self._at += 1
        elif not self._text.startswith("/", self._at):
            return None
        if not self._delimited(1):
            return False
        self._skip(re.compile("[IM]*"))
        return True

    def _delimited(self, parts: int, *, regex: bool = True) -> bool:
        """Move over ``/part/`` or ``/part/part/``, with whatever stands for the slash."""
        delimiter = self._text[self._at : self._at + 1]
        if not delimiter or delimiter in "\\\n;{}[] \t" or delimiter.isalnum():
            return False
        self._at += 1
        end = re.escape(delimiter)
        plain = re.compile(rf"(?:\\[^\n]|[^\\\n{end}])*+{end}")
        bracket = rf"\[\^?+\]?+(?:\[:[a-z]++:\]|\\[^\]\\\n]|[^\]\[\\\n{end}])*+\]"
        first = re.compile(rf"(?:\\[^\n]|[^\\\n\[{end}]|{bracket})*+{end}")
        return all(self._skip(first if regex and part == 0 else plain) is not None for part in range(parts))

    def _command(self) -> bool:
        command = self._text[self._at : self._at + 1]
        self._at += 1
        if command == "{":
            return True
        if command in SED_PLAIN and command:
            return self._ends()
        if command in SED_COUNTED and command:
            self._skip(re.compile(r"[ \t]*\d*"))
            return self._ends()
        if command in SED_BRANCHES and command:
            # Back to a label only where each round takes a line; else it may never end.
            label = self._skip(SED_LABEL)
            return label is not None and (self._advances or not label.strip())
        if command == ":":
            self._advances = False
            return bool((self._skip(SED_LABEL) or "").strip())
        if command == "s":
            return self._delimited(2) and self._skip(SED_FLAGS) is not None and self._ends()
        return command == "y" and self._delimited(2, regex=False) and self._ends()

    def _ends(self) -> bool:
        """Return whether the command ends here."""
        self._skip(re.compile(r"[ \t]*"))
        return self._at == len(self._text) or self._text[self._at] in ";\n}"


AWK_REACHES = re.compile(
    r"system|getline|extension|ENVIRON|ARGV|ARGC|ARGIND|SYMTAB|FUNCTAB|PROCINFO|textdomain|gettext|LINT|@|\\\n|\r|\x00",
    re.IGNORECASE,
)
"""Whatever runs or reads something else, or names what does; in a text, too, which costs a question at worst."""

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
AWK_FOR = re.compile(r"\bfor\b")
AWK_COUNTED = re.compile(
    r"\bfor\s*\(\s*\w+\s+in\s+\w+\s*\)"
    r"|\bfor\s*\(\s*(\w+)\s*=\s*[\w$]+\s*;\s*\1\s*(?:<=?\s*(?:NF|NR|n|\d{1,7}|length\(\w*\))\s*;\s*(?:\1\+\+|\+\+\1)"
    r"|>=?\s*\d+\s*;\s*(?:\1--|--\1))\s*\)"
)
"""Loops that end: over an array, or counting."""


def check_awk(program: str) -> str:
    """Return what is wrong with an awk program.

    It may not write to files, pipe, run or read anything else than its input.
    """
    if AWK_REACHES.search(program) or AWK_LOOPS.search(program) or check_repeats([program]):
        return NO_AWK
    if len(AWK_FOR.findall(program)) != len(AWK_COUNTED.findall(program)):
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
    """Return whether a slash after this is a division in every awk."""
    return (before[:1].isalnum() or before[:1] in {"_", ".", "]"}) and before not in AWK_WORDS
