"""Asks programs themselves what their options take. It runs in a laboratory, alone, with the standard library only.

Each line of the input file names a program's first words and options as JSON, and each printed line answers one. A word
after an option that takes no value is read as an option too: an unknown one gets a complaint, and git's ``--output``
makes a file. A word that an option takes as its value does neither.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path

MARKER = "no-such-option-zz"
LETTER = "~"
AT_ONCE = 3


@cache
def said(*words: str) -> tuple[str, ...]:
    """Return the lines a program prints, on both streams."""
    try:
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return ("timeout",)
    return tuple((ended.stdout + ended.stderr).decode(errors="replace").splitlines())


class Program:
    """One program, with the forms of its complaint about an unknown option."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._written = Path("written-by-" + "-".join(words))
        self._forms = {
            *self._complaints(f"--{MARKER}", MARKER),
            *self._complaints(f"--{MARKER}", f"--{MARKER}"),
            *self._complaints(f"-{LETTER}", LETTER),
            *self._complaints(f"-{LETTER}", f"-{LETTER}"),
        }
        self._writes = words[0] == "git" and self._write([])

    @cached_property
    def speaks(self) -> bool:
        """True if it reports unknown options in any way."""
        return self._writes or bool(self._forms)

    def _complaints(self, word: str, about: str) -> list[str]:
        return [line.replace(about, "\0") for line in said(*self._words, word) if about in line]

    def _complains(self, words: list[str], about: str) -> bool:
        lines = said(*self._words, *words)
        return any(
            form.replace("\0", about.removeprefix(dashes)) in lines
            for form in self._forms
            for dashes in ("", "-", "--")
        )

    def _write(self, words: list[str]) -> bool:
        self._written.unlink(missing_ok=True)
        said(*self._words, *words, f"--output={self._written}")
        return self._written.exists()

    def takes(self, option: str) -> tuple[bool, bool, str]:
        """Return whether it knows the option, whether that takes the next word, and the kind of glued text.

        The kind is "flags", "value" or "refused".
        """
        following = f"--output={self._written}" if self._writes else f"--{MARKER}"
        next_word = not self._write([option]) if self._writes else not self._complains([option, following], following)
        known = not self._complains([option, following], option)
        if option.startswith("--"):
            return known or not self._complains([f"{option}=1"], f"{option}=1"), next_word, "value"
        glued = f"{option}{LETTER}"
        if self._complains([glued], glued):
            return known, next_word, "refused"
        return known, next_word, "flags" if self._complains([glued], LETTER) else "value"


def answer(row: str) -> str:
    """Return a program's answers about its options, or null if it does not report unknown ones."""
    words, options = json.loads(row)
    program = Program(words)
    return json.dumps({option: program.takes(option) for option in options} if program.speaks else None)


def main() -> None:
    """Answer each row of the file named on the command line."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sys.stdout.write("".join(f"{line}\n" for line in pool.map(answer, Path(sys.argv[1]).read_text().splitlines())))


if __name__ == "__main__":
    main()
