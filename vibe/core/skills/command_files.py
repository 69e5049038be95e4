"""CommandFiles: slash commands of the user and the project, which are prompts in files named ``commands/<name>.md``."""

from __future__ import annotations

import os
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
from vibe.system.errors import UsageError, closest, did_you_mean, os_error_as
from vibe.system.files import is_open, regular_bytes

MAX_BYTES = 200_000
"""The most bytes of a command's file."""
MOST_FILES = 1_000
"""The most command files of one folder."""
_NAME = re.compile(r"[A-Za-z0-9][\w:.-]*")
_CALL = re.compile(rf"/(?P<name>{_NAME.pattern})(?:\s+(?P<rest>.*))?", re.DOTALL)
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9][0-9]?)")


FOREIGN_COMMANDS = MappingProxyType({
    "loop": "put the prompt into a file and have cron run `vibe -p`",
    "thinking": "/model ALIAS low|medium|high sets the thinking",
})
"""Commands of Mistral Vibe, and how to do the same here."""
_OUTPUT = re.compile(r"!`([^`\n]+)`")
_UNUSED = ("model", "agent", "allowed-tools", "allowed_tools")


class NoSuchCommandError(UsageError):
    """A prompt begins with a slash command that does not exist."""

    def __init__(self, name: str, known: Sequence[str], otherwise: str = "") -> None:
        names = ", ".join(f"/{one}" for one in sorted(known))
        otherwise = otherwise or (f"available: {names}" if known else "none are defined here")
        if name in FOREIGN_COMMANDS:
            otherwise = f"{FOREIGN_COMMANDS[name]}; {otherwise}"
        hint = did_you_mean([f"/{near}" for near in closest(name, known)], otherwise)
        super().__init__(f"unknown command '/{name}': {hint} (to send it to the model, start with another word)")
        self.name = name

    def among(self, known: Iterable[str]) -> NoSuchCommandError:
        """Return the same error for a front end that has all these commands and a ``/help``."""
        return NoSuchCommandError(self.name, list(known), "/help lists them")


class CommandFileError(UsageError):
    """The file of a command can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class CommandFile(Struct, frozen=True, kw_only=True):
    """A command as described by its file; ``hint`` names the arguments it takes."""

    name: str
    path: Path
    description: str = ""
    hint: str = ""


class CommandFiles:
    """The commands in some folders. Among commands with the same name the first counts. Files are read when needed."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._folders = tuple(folders)

    def expanded(self, prompt: str, besides: Iterable[str] = ()) -> str:
        """Return the prompt a command expands to; blocks.

        A prompt that calls no command, or one of those in ``besides``, is returned unchanged.

        Raises:
            NoSuchCommandError, CommandFileError: the command does not exist, or can't be used.
        """
        call = _CALL.fullmatch(prompt)
        if call is None:
            return prompt
        name = call["name"]
        path = next((path for known, path in self._files() if known == name), None)
        if path is not None:
            return _with_arguments(_parts(path, [])[1], (call["rest"] or "").strip())
        if name.casefold() in set(besides) or os.path.exists(f"/{name}"):  # the prompt begins with a path, as /tmp
            return prompt
        closed = next((it for it in self._folders if os.path.isdir(it) and not is_open(it, os.R_OK | os.X_OK)), None)
        otherwise = f"{closed} can't be read, correct its permissions" if closed else ""
        raise NoSuchCommandError(name, [*(known for known, _ in self._files()), *besides], otherwise)

    def listed(self, warnings: list[str]) -> list[CommandFile]:
        """Return all commands, and add a sentence to ``warnings`` for each that is broken or hidden; blocks."""
        found: dict[str, CommandFile] = {}
        for name, path in self._files():
            if not _NAME.fullmatch(name):
                warnings.append(f"{path}: {name!r} can't be typed as a command: use letters, digits, - and _")
            elif name in found:
                warnings.append(f"two commands are called /{name}: {found[name].path} is used, not {path}")
            else:
                try:
                    found[name] = _command(name, path, warnings)
                except CommandFileError as error:
                    warnings.append(str(error))
        return list(found.values())

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield all files, each with its command's name: ``git/commit.md`` is ``git:commit``."""
        for folder in self._folders:
            files = sorted(islice(folder.rglob("*.md"), MOST_FILES)) if os.path.isdir(folder) else []
            for path in files:
                yield ":".join(path.relative_to(folder).with_suffix("").parts), path


def _command(name: str, path: Path, warnings: list[str]) -> CommandFile:
    """Return a command with the fields of its front matter, which are empty if that is broken."""
    problems: list[str] = []
    header, _ = _parts(path, problems)
    fields: Mapping[str, Any] = {}
    try:
        fields = front_matter_fields(header, problems) if header else {}
    except FrontMatterError as error:
        problems.append(str(error))
    warnings.extend(f"{path}: {problem}" for problem in problems)
    unused = [key for key in _UNUSED if key in fields]
    if unused:
        warnings.append(
            f"{path}: {', '.join(unused)} in its header has no effect: /model, /agents and /permissions set it"
        )
    hint = fields.get("argument-hint", fields.get("argument_hint"))
    if isinstance(hint, list):  # YAML reads [file] as a list
        hint = " ".join(f"[{text_of_field(word)}]" for word in cast("list[Any]", hint))
    return CommandFile(
        name=name, path=path, description=text_of_field(fields.get("description")), hint=text_of_field(hint)
    )


def _parts(path: Path, problems: list[str]) -> tuple[str, str]:
    """Return a command's front matter and its prompt, in which embedded shell commands are requests to run them.

    All of the file is the prompt if the front matter is not closed, which is added to ``problems``.
    """
    header, text = "", _text(path)
    if FENCE.fullmatch(text.partition("\n")[0]):
        try:
            header, text = split_front_matter(text)
        except FrontMatterError as error:
            problems.append(str(error))
    prompt = _OUTPUT.sub(r"(run `\1` first: its output belongs here)", text).strip()
    if not prompt:
        raise CommandFileError(path, "it has no prompt, write one")
    return header, prompt


def _text(path: Path) -> str:
    with os_error_as(lambda error: CommandFileError(path, f"can't be read ({error.strerror})")):
        content = regular_bytes(path, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise CommandFileError(path, f"longer than {MAX_BYTES:,} bytes, shorten it")
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _with_arguments(template: str, given: str) -> str:
    """Return the template with the given arguments in its placeholders, or at its end if it has none."""
    words = given.split()

    def word(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return given
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    if _PLACE.search(template):
        return _PLACE.sub(word, template)
    return f"{template}\n\n{given}" if given else template
