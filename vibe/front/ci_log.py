"""Keeps text by others from acting as commands in the log of a CI service, where a line may be a command."""

from __future__ import annotations

import io
import re
from typing import TextIO

_GITHUB = (
    "add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|internal-set-repo-path|notice|remove-matcher|"
    "save-state|set-env|set-output|stop-commands|warning"
)
_COMMAND = re.compile(
    rf"""
    (?: (?<![^\r\n]) [^\S\r\n]* : (?= : (?:{_GITHUB}) (?:\s|:) )   # ::error title=...::  at the beginning of a line
    |   \# (?= \#\[ [\w-] )                                        # ##[error]  anywhere
    |   \# (?= \#(?:vso|teamcity)\[ )                              # ##vso[...] anywhere
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def without_commands(text: str) -> str:
    """Return whole lines of text with a space inserted in whatever a CI service would take for a command."""
    return _COMMAND.sub(r"\g<0> ", text)


class CiLog(io.TextIOWrapper):
    """A text stream into a CI log. It writes whole lines; ``finish`` writes a last one without a line break."""

    _line = ""

    def write(self, text: str, /) -> int:
        """Write all lines that are complete so far."""
        whole, line_break, self._line = (self._line + text).rpartition("\n")
        super().write(without_commands(whole + line_break))
        return len(text)

    def finish(self) -> None:
        """Write the text that has no line break yet."""
        super().write(without_commands(self._line))
        self._line = ""

    def command(self, line: str) -> None:
        """Write a command of our own."""
        if self._line:
            self.write("\n")
        super().write(f"{line}\n")


def write_command(stream: TextIO, line: str) -> None:
    """Write a line that the service is to carry out as a command."""
    if isinstance(stream, CiLog):
        stream.command(line)
    else:
        stream.write(f"{line}\n")
