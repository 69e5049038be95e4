"""Slash commands of the user and the project: prompts kept in files, ``commands/<name>.md``, started by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from vibe.core.errors import UsageError
from vibe.core.suggestion import closest, did_you_mean

MAX_BYTES = 200_000
_CALL = re.compile(r"/(?P<name>[A-Za-z0-9][\w:.-]*)(?:\s+(?P<rest>.*))?", re.DOTALL)
_HEADER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])")


class NoSuchCommandError(UsageError):
    """A prompt begins like a slash command, and there is none of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        listed = f"there are {', '.join(f'/{word}' for word in sorted(known))}" if known else "there are none here"
        hint = did_you_mean([f"/{near}" for near in closest(name, known)], listed)
        super().__init__(f"there is no command '/{name}': {hint} (to send it to the model, begin with another word)")


class CommandFileError(UsageError):
    """The file of a command can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class CommandFiles:
    """The commands in some folders; of one name the first found is meant. Files are read when they are called."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._folders = tuple(folders)

    def expanded(self, prompt: str, besides: Iterable[str] = ()) -> str:
        """The prompt a command stands for; as it is if it calls none, or one that is known ``besides``. Blocks.

        Raises:
            NoSuchCommandError, CommandFileError: it calls one that is not there, or can't be used.
        """
        call = _CALL.fullmatch(prompt)
        if call is None or call["name"].casefold() in set(besides):
            return prompt
        name = call["name"]
        path = next((path for folder in self._folders if (path := folder / f"{name}.md").is_file()), None)
        if path is not None:
            return _filled(_template(path), (call["rest"] or "").strip())
        if Path(f"/{name}").exists():  # a folder of the system
            return prompt
        raise NoSuchCommandError(name, [*self._names(), *besides])

    def _names(self) -> list[str]:
        return [path.stem for folder in self._folders if folder.is_dir() for path in sorted(folder.glob("*.md"))]


def _template(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandFileError(path, f"can't be read ({error.strerror})") from error
    if len(content) > MAX_BYTES:
        raise CommandFileError(path, f"longer than {MAX_BYTES:,} bytes, shorten it")
    text = _HEADER.sub("", content.decode("utf-8-sig", "replace").replace("\r\n", "\n")).strip()
    if not text:
        raise CommandFileError(path, "there is no prompt in it, write one")
    return text


def _filled(template: str, given: str) -> str:
    """The template with the words that were given: in its places, else at its end."""
    words = given.split()

    def word(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return given
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    if _PLACE.search(template):
        return _PLACE.sub(word, template)
    return f"{template}\n\n{given}" if given else template
