"""Slash commands of the user and the project: prompts kept in files, ``commands/<name>.md``, started by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct

from vibe.core.skills.front_matter import (
    FENCE,
    FrontMatterError,
    front_matter_fields,
    split_front_matter,
    text_of_field,
)
from vibe.system.errors import UsageError, closest, did_you_mean

MAX_BYTES = 200_000
MOST_FILES = 1_000
"""Of one folder."""
_NAME = re.compile(r"[A-Za-z0-9][\w:.-]*")
_CALL = re.compile(rf"/(?P<name>{_NAME.pattern})(?:\s+(?P<rest>.*))?", re.DOTALL)
_HEADER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9][0-9]?)")


ELSEWHERE = MappingProxyType({
    "loop": "put the prompt into a file and have cron run `vibe -p`",
    "thinking": "/model ALIAS low|medium|high sets the thinking",
})
"""Commands of Mistral Vibe, and the way here."""
_OUTPUT = re.compile(r"!`([^`\n]+)`")
_UNUSED = ("model", "agent", "allowed-tools", "allowed_tools")


class NoSuchCommandError(UsageError):
    """A prompt begins like a slash command, and there is none of that name."""

    def __init__(self, name: str, known: Sequence[str], otherwise: str = "") -> None:
        if not otherwise:
            otherwise = (
                f"available: {', '.join(f'/{one}' for one in sorted(known))}" if known else "none are defined here"
            )
        if name in ELSEWHERE:
            otherwise = f"{ELSEWHERE[name]}; {otherwise}"
        hint = did_you_mean([f"/{near}" for near in closest(name, known)], otherwise)
        super().__init__(f"unknown command '/{name}': {hint} (to send it to the model, start with another word)")
        self.name = name

    def among(self, known: Iterable[str]) -> NoSuchCommandError:
        """The same for a person who has all these commands, and help on them."""
        return NoSuchCommandError(self.name, list(known), "/help lists them")


class CommandFileError(UsageError):
    """The file of a command can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class CommandFile(Struct, frozen=True, kw_only=True):
    """A command as its file describes it; ``hint`` are the arguments it takes."""

    name: str
    path: Path
    description: str = ""
    hint: str = ""


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
        if call is None:
            return prompt
        name = call["name"]
        path = next((path for known, path in self._files() if known == name), None)
        if path is not None:
            return _filled(_template(path), (call["rest"] or "").strip())
        if name.casefold() in set(besides):
            return prompt
        if Path(f"/{name}").exists():  # a folder of the system
            return prompt
        raise NoSuchCommandError(name, [*(known for known, _ in self._files()), *besides])

    def listed(self, warnings: list[str]) -> list[CommandFile]:
        """Return the commands by name, and add to ``warnings`` a sentence for each that is broken or hidden. Blocks."""
        found: dict[str, CommandFile] = {}
        for name, path in self._files():
            if not _NAME.fullmatch(name):
                warnings.append(f"{path}: {name!r} can't be typed as a command: use letters, digits, - and _")
            elif name in found:
                warnings.append(f"two commands are called /{name}: {found[name].path} is used, not {path}")
            else:
                try:
                    found[name] = _described(name, path, warnings)
                except CommandFileError as error:
                    warnings.append(str(error))
        return list(found.values())

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield all files, each with its name: ``git/commit.md`` is ``git:commit``."""
        for folder in self._folders:
            files = sorted(islice(folder.rglob("*.md"), MOST_FILES)) if folder.is_dir() else []
            for path in files:
                yield ":".join(path.relative_to(folder).with_suffix("").parts), path


def _described(name: str, path: Path, warnings: list[str]) -> CommandFile:
    """Return a command with what its front matter says; a broken one says nothing."""
    _template(path)
    text = _text(path)
    odd: list[str] = []
    fields: Mapping[str, Any] = {}
    if FENCE.fullmatch(text.partition("\n")[0]):
        try:
            fields = front_matter_fields(split_front_matter(text)[0], odd)
        except FrontMatterError as error:
            odd.append(str(error))
    warnings.extend(f"{path}: {problem}" for problem in odd)
    unused = [key for key in _UNUSED if key in fields]
    if unused:
        warnings.append(
            f"{path}: {', '.join(unused)} in its header has no effect: /model, /agents and /permissions set it"
        )
    hint = fields.get("argument-hint", fields.get("argument_hint"))
    if isinstance(hint, list):  # [file] is a list to YAML
        hint = " ".join(f"[{text_of_field(word)}]" for word in cast("list[Any]", hint))
    return CommandFile(
        name=name, path=path, description=text_of_field(fields.get("description")), hint=text_of_field(hint)
    )


def _template(path: Path) -> str:
    text = _OUTPUT.sub(r"(run `\1` first: its output belongs here)", _HEADER.sub("", _text(path)).strip())
    if not text:
        raise CommandFileError(path, "it has no prompt, write one")
    return text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandFileError(path, f"can't be read ({error.strerror})") from error
    if len(content) > MAX_BYTES:
        raise CommandFileError(path, f"longer than {MAX_BYTES:,} bytes, shorten it")
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n")


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
