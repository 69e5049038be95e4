"""Reads TOML files together with the line of every key, which the standard parser does not report."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from vibe.system.errors import ConfigError, error_as

RawPath: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the root of a file to a value."""

MOST_BYTES = 1_000_000
"""Bytes of a settings file at most; what changes one takes seconds for each megabyte."""
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY_PART = re.compile(r"[ \t]*([A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')[ \t]*")
_KEY = re.compile(rf"{_KEY_PART.pattern}(?:\.{_KEY_PART.pattern})*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlSource:
    """The content of a TOML file. ``label`` is its displayed name; ``lines`` count from 1."""

    label: str
    folder: Path
    data: Mapping[str, Any]
    lines: Mapping[RawPath, int]

    def where(self, path: RawPath) -> str:
        """Return ``file:line`` of the key, or of the nearest table around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return f"{self.label}:{self.lines[path[:length]]}"
        return self.label


def read_toml(path: Path, label: str) -> TomlSource | None:
    """Return the file's content, or None if there is no such file.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, or is not TOML; the error names the line.
    """
    text = read_text(path, label)
    if text is None:
        return None
    scanner = _Scanner(text)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        scanner.scan()
        raise _syntax_error(error, label, scanner) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(label, "", "is nested too deeply or has a number that is too long, shorten it") from error
    scanner.scan()
    return TomlSource(label=label, folder=path.parent, data=data, lines=scanner.lines)


def read_text(path: Path, label: str) -> str | None:
    """Return the file's text, or None if there is no such file.

    A link to settings that leads nowhere is an error, since they may forbid things. Variables may come through a pipe,
    which a password manager serves. Anything else in a pipe would be waited for.

    Raises:
        ConfigError: it cannot be read or is not UTF-8.
    """
    try:
        if path.suffix == ".toml" and path.is_fifo():
            raise ConfigError(label, "", "is a pipe, put a file there")
        with path.open("rb") as file:  # which may be a device without an end
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError(label, "", f"is longer than {MOST_BYTES:,} bytes, shorten it")
        return content.decode("utf-8-sig")
    except OSError as error:
        is_dead_link = path.suffix == ".toml" and path.is_symlink()
        if isinstance(error, FileNotFoundError | NotADirectoryError) and not is_dead_link:
            return None
        advice = "correct its permissions" if isinstance(error, PermissionError) else "put a readable file there"
        raise ConfigError(label, "", f"cannot be read ({error.strerror}), {advice}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(label, "", f"is not UTF-8 (byte {error.start}), save it as UTF-8") from error


def dotted(path: RawPath) -> str:
    """Return ``path`` in the form ``models[0].name``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _syntax_error(error: tomllib.TOMLDecodeError, label: str, scanner: _Scanner) -> ConfigError:
    """Return the parser's error with its line, or a clearer one if a key is repeated."""
    if scanner.repeated is not None:
        path, line = scanner.repeated
        first = scanner.lines[path]
        return ConfigError(f"{label}:{line}", dotted(path), f"is already set on line {first}, remove one of the two")
    place = _PLACE.search(str(error))
    line = int(place[1]) if place and place[1] else scanner.line_of(len(scanner.text.rstrip()))
    reason = _PLACE.sub("", str(error))
    return ConfigError(f"{label}:{line}", "", f"is not valid TOML ({reason}), correct this line")


class _LostError(Exception):
    """The text is not valid TOML at this point."""


class _Scanner:
    """Finds the line of every key. It relies on the parser to reject text that is not TOML."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[RawPath, int] = {}
        self.repeated: tuple[RawPath, int] | None = None
        self._set: set[RawPath] = set()
        self._lengths: dict[RawPath, int] = {}
        self._starts = [match.start() for match in re.finditer(r"^", text, re.MULTILINE)]
        self._at = 0

    def line_of(self, position: int) -> int:
        """Return the line of a character, counting from 1."""
        return bisect_right(self._starts, position)

    def scan(self) -> None:
        """Fill ``lines`` up to the first repeated key, or the first place that is not valid TOML."""
        table: RawPath = ()
        try:
            while self._skip_blank() < len(self.text) and self.repeated is None:
                if self.text.startswith("[", self._at):
                    table = self._header()
                else:
                    self._pair(table)
        except (_LostError, RecursionError):
            return

    def _header(self) -> RawPath:
        """Read ``[table]`` or ``[[list of tables]]``, and return the path of the keys below it."""
        start = self._at
        brackets = 2 if self.text.startswith("[[", self._at) else 1
        self._at += brackets
        names = self._key()
        self._expect("]" * brackets)
        path: RawPath = ()
        for name in names[:-1]:
            path = (*path, name)
            path = (*path, self._lengths[path] - 1) if path in self._lengths else path
            self.lines.setdefault(path, self.line_of(start))
        path = (*path, names[-1])
        if brackets == 1:
            self._record(path, start)
            return path
        self.lines.setdefault(path, self.line_of(start))
        count = self._lengths[path] = self._lengths.get(path, 0) + 1
        self._record((*path, count - 1), start)
        return (*path, count - 1)

    def _pair(self, table: RawPath) -> None:
        """Read ``key = value``."""
        self._skip_blank()
        start = self._at
        names = self._key()
        for length in range(1, len(names)):
            self.lines.setdefault((*table, *names[:length]), self.line_of(start))
        path = (*table, *names)
        self._record(path, start)
        self._expect("=")
        self._value(path)

    def _value(self, path: RawPath) -> None:
        """Skip a value, recording the lines of what is in a list or an inline table."""
        self._skip_blank()
        opening = self.text[self._at : self._at + 1]
        if opening == "[":
            for index in self._items("]"):
                self._record((*path, index), self._at)
                self._value((*path, index))
        elif opening == "{":
            for _ in self._items("}"):
                self._pair(path)
        else:
            self._take(_STRING if opening in {'"', "'"} else _SCALAR)

    def _items(self, closing: str) -> Iterator[int]:
        """Yield the index of each item of a list or inline table; the caller reads the item before the next one."""
        self._at += 1
        index = 0
        while self._skip_blank() < len(self.text) and self.text[self._at] != closing:
            yield index
            index += 1
            self._skip_blank()
            self._at += self.text.startswith(",", self._at)
        self._expect(closing)

    def _key(self) -> tuple[str, ...]:
        return tuple(map(_unquoted, _KEY_PART.findall(self._take(_KEY))))

    def _record(self, path: RawPath, position: int) -> None:
        if path in self._set and self.repeated is None:
            self.repeated = (path, self.line_of(position))
        self._set.add(path)
        if self.repeated is None or self.repeated[0] != path:
            self.lines[path] = self.line_of(position)

    def _take(self, expression: re.Pattern[str]) -> str:
        match = expression.match(self.text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        return match[0]

    def _expect(self, token: str) -> None:
        self._skip_blank()
        if not self.text.startswith(token, self._at):
            raise _LostError
        self._at += len(token)

    def _skip_blank(self) -> int:
        match = _BLANK.match(self.text, self._at)
        self._at = match.end() if match else self._at
        return self._at


def _unquoted(raw: str) -> str:
    if raw[0] == "'" or (raw[0] == '"' and "\\" not in raw):
        return raw[1:-1]
    if raw[0] != '"':
        return raw
    with error_as(tomllib.TOMLDecodeError, lambda _: _LostError()):
        return str(tomllib.loads(f"key = {raw}")["key"])
