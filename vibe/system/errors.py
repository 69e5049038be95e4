"""Errors that a user may read.

    VibeError                      anything that ends a command with one sentence
    ├── UsageError                 bad arguments, bad plan, bad configuration       exit 2
    │   └── ConfigError            a configuration file, variable or flag is wrong
    └── EnvironmentFailure         the surroundings can't serve (bus, lock, key)    exit 3
        └── MissingKeyError        a provider needs a key that is not set

The command line maps the class to an exit code. Any other exception is a failure of the work, or a defect of ours.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from pathlib import Path

E = TypeVar("E", bound=BaseException)

_REMEDIES: Mapping[int, str] = MappingProxyType({
    errno.EMFILE: "raise the limit of open files (`ulimit -n`) or run fewer steps in parallel",
    errno.ENFILE: "close other programs, or raise the system's limit of open files",
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some of your quota",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`)",
    errno.EROFS: "make it writable again",
    errno.ENOMEM: "free some memory",
    errno.EAGAIN: "free some memory or processes",
})
"""A remedy for each resource the system may run out of. Other system errors are about the request itself."""

FULL_BYTES = 500_000
"""A disk with less free space counts as full, because a program that failed there may have removed what it wrote."""
NO_TEMPORARY_FOLDER = "No usable temporary directory"
"""The beginning of the message of ``tempfile`` if no folder can be written."""
NO_THREAD = "can't start new thread"
"""The message of ``threading`` if the system refuses a thread."""

_ABOUT_PLACES: Mapping[int, str] = MappingProxyType({
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "its folder is missing, restore it"),
    errno.EISDIR: "it is a folder, name a file",
    errno.EEXIST: "something is there already, name another",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "correct the permissions"),
})


class VibeError(Exception):
    """An error whose message is one sentence: what is wrong, where, and what to do about it."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it without calling its class, which may not take the message: a pool's processes pass on errors."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


class UsageError(VibeError):
    """The user's input is wrong. Nothing was done."""


class ConfigError(UsageError):
    """A setting is wrong. ``where`` is ``file:line``, a variable or a flag, and ``key`` the dotted key.

    ``problems`` lists all that were found, starting with this one.
    """

    def __init__(self, where: str, key: str, problem: str) -> None:
        at = f"{where}: {key}" if key else where
        super().__init__(f"{at}: {problem}")
        self.where = where
        self.key = key
        self.problem = problem
        self.problems: tuple[ConfigError, ...] = (self,)


class EnvironmentFailure(VibeError):
    """The surroundings can't serve the request."""


class MissingKeyError(EnvironmentFailure):
    """A provider has no API key. ``in_keyring`` says that the keyring should have it.

    ``found`` are other known providers whose key is set, each with the name of the key's variable.
    """

    def __init__(
        self, provider: str, variable: str, found: Iterable[tuple[str, str]] = (), *, in_keyring: bool = False
    ) -> None:
        other = "run `vibe setup`, or choose another model with --model or /model"
        other += "".join(f"; {key} is set: `vibe setup --provider {name}` takes it" for name, key in found)
        super().__init__(
            f"no API key for provider {provider!r}: the keyring does not return {variable} (see `vibe doctor`): "
            f"unlock it, set the environment variable, {other}"
            if in_keyring
            else f"no API key for provider {provider!r}: set the environment variable {variable}, {other}"
        )
        self.provider = provider
        self.variable = variable


def remedy(error: OSError) -> str:
    """Return advice for a file that can't be written."""
    return _REMEDIES.get(error.errno or 0) or _ABOUT_PLACES.get(error.errno or 0) or "check that it is writable"


@contextmanager
def error_as(kinds: type[E] | tuple[type[E], ...], failure: Callable[[E], Exception]) -> Generator[None]:
    """Raise what ``failure`` makes of an error of these kinds in the block."""
    try:
        yield
    except kinds as error:
        raise failure(error) from error


@contextmanager
def explained_by(warnings: Iterable[str]) -> Generator[None]:
    """Note the warnings at an error in the block: what has no effect may be the reason for it."""
    try:
        yield
    except VibeError as error:
        for warning in warnings:
            error.add_note(warning)
        raise


def in_full(error: BaseException) -> str:
    """Return the message of an error, with the warnings that may explain it."""
    return "; ".join((str(error), *getattr(error, "__notes__", ())))


def os_error_as(failure: Callable[[OSError], Exception]) -> AbstractContextManager[None]:
    """Raise what ``failure`` makes of an OSError in the block."""
    return error_as(OSError, failure)


def shortage(error: BaseException | None) -> str | None:
    """Return which system resource ran out and what helps, if that caused ``error``. Work that waits can then continue.

    None if the error is about something else.
    """
    for cause in _causes(error):
        match cause:
            case OSError() if remedy := _REMEDIES.get(cause.errno or 0):
                return f"{cause.strerror}: {remedy}"
            case FileNotFoundError(args=(_, str(said))) if said.startswith(NO_TEMPORARY_FOLDER):
                return "no folder for temporary files can be written: free some disk space, or set TMPDIR to another"
            case MemoryError():
                return f"not enough memory: {_REMEDIES[errno.ENOMEM]}, or raise the limit (`ulimit -v`)"
            case EOFError(args=("marshal data too short",)):  # Python doesn't notice that it wrote too little
                return "a file that Python compiled was cut, as by a full disk: delete the __pycache__ folders of vibe"
            case RuntimeError(args=(str(said),)) if said == NO_THREAD:
                return "no more threads: free some processes, or raise their limit (`ulimit -u`)"
            case _:
                pass
    return None


def out_of_files(error: BaseException) -> bool:
    """Return whether the limit of open files caused an error. Then the advice of its own sentence does not help."""
    return any(getattr(cause, "errno", None) in {errno.EMFILE, errno.ENFILE} for cause in _causes(error))


def shortage_in(words: str, *places: Path) -> OSError | None:
    """Return the system shortage that another program reports in ``words``, written in the C locale, or None.

    A program that names no reason met a full disk if one of the ``places`` in which it wrote is on one.
    """
    numbers = [number for number in _REMEDIES if os.strerror(number) in words]
    numbers += [errno.ENOSPC for place in places if _is_full(place)]
    return next((OSError(number, os.strerror(number)) for number in numbers), None)


def _is_full(place: Path) -> bool:
    disk = os.statvfs(next(one for one in (place, *place.parents) if os.path.exists(one)))
    return disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < FULL_BYTES


class BrokeOffError(RuntimeError):
    """Code of others ended by what is no ``Exception``. Its cause, if it has one, may be raised in its place."""


def described(error: BaseException, *, bare: bool = False) -> str:
    """Return an error's type and text, or if ``bare`` its text alone, in characters that can always be encoded.

    Of a group, it is the first error in it. The text of a ``BrokeOffError`` names the type that was raised.
    """
    error, text = innermost(error), "its text can't be had"
    with suppress(Exception):  # Other people's errors may raise when they are converted to text.
        text = str(error).encode("utf-8", "replace").decode()
    return text if bare or isinstance(error, BrokeOffError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def unexpected(error: BaseException, *, with_what: str = "") -> str:
    """Return a sentence for any other error: the resource that ran out, or that it is a defect to report."""
    lacking = shortage(error)
    if lacking is not None:
        return f"the system can't serve that now: {lacking}"
    return f"internal error ({described(error)}); please report it{with_what}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, the members of its groups, and the causes of each.

    Each is yielded once, because an error can be among its own causes.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", one).exceptions
        pending.append(one.__cause__ if one.__suppress_context__ else one.__cause__ or one.__context__)


def innermost(error: BaseException) -> BaseException:
    """Return the first error wrapped by task groups.

    It cancelled the other tasks, and their errors followed from it.
    """
    if isinstance(error, BaseExceptionGroup):
        return innermost(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error


SIMILAR = 0.6
"""The least similarity (0 to 1) of names that are suggested."""


def closest(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = SIMILAR) -> list[str]:
    """Return at most ``most`` of the known names that are similar to ``name``, the most similar first."""
    import difflib  # noqa: PLC0415  only for a misspelling

    return difflib.get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(names: Sequence[str], otherwise: str = "") -> str:
    """Ask whether one of the names was meant. Without any names, return ``otherwise``."""
    return f"did you mean {' or '.join(map(repr, names))}?" if names else otherwise
