"""Completer: finds candidates among the commands, their arguments and the files of the workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vibe.cli.textual_ui.input.completion import Candidate, CompletedWord, CompletionKind, best, mention_of
from vibe.cli.textual_ui.input.file_index import FileIndex
from vibe.core.plain_text import plain_line

MOST = 50
"""The most that is offered."""

CommandRow = tuple[str, str, str]
"""The name of a command, its usage, and what it does."""


class Completer:
    """Knows what there is; ``files`` may still have to be listed.

    ``arguments`` is given the name of a command, without its slash, and the text behind it, in a thread, and returns
    the words that may stand where its last word is.
    """

    def __init__(
        self,
        commands: Callable[[], Iterable[CommandRow]],
        arguments: Callable[[str, str], Iterable[str]],
        files: FileIndex,
    ) -> None:
        self._commands = commands
        self._arguments = arguments
        self.files = files

    def commands(self, word: CompletedWord) -> list[Candidate]:
        """The commands that fit."""
        rows = [[plain_line(part) for part in row] for row in self._commands()]
        names = [name.removeprefix("/") for name, _, _ in rows]
        found: list[Candidate] = []
        for place in best(word.typed, names)[:MOST]:
            _, usage, about = rows[place]
            shown = usage.removeprefix("/").removeprefix(names[place]).strip()
            label = f"/{names[place]} {shown}".rstrip()
            found.append(Candidate(insert=f"/{names[place]} ", label=label, about=about))
        return found

    def find(self, word: CompletedWord, is_stale: Callable[[], bool]) -> list[Candidate] | None:
        """The arguments or files that fit; None: nobody wants to know any more. Blocks."""
        if word.kind is CompletionKind.ARGUMENT:
            names = [plain_line(name) for name in self._arguments(word.command, word.text)]
            return [Candidate(insert=names[place], label=names[place]) for place in best(word.typed, names)[:MOST]]
        paths = self.files.search(word.typed, MOST, is_stale)
        return None if paths is None else [Candidate(insert=f"{mention_of(path)} ", label=path) for path in paths]

    def is_answer(self, word: CompletedWord, selected: Candidate, offered: Iterable[Candidate]) -> bool:
        """Return whether Enter means the selected candidate although the person did not move to it."""
        match word.kind:
            case CompletionKind.ARGUMENT:
                return False  # the text behind a command may be words of the person's own
            case CompletionKind.COMMAND:
                return all(candidate.insert.strip() != f"/{word.typed}" for candidate in offered)
            case CompletionKind.FILE:
                return selected.label != word.typed
