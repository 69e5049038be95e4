"""Errors a user may read.

    VibeError                      anything that ends a command with one sentence
    ├── UsageError                 bad arguments, bad plan, bad configuration       exit 2
    │   └── ConfigError            a configuration file, variable or flag is wrong
    └── EnvironmentFailure         the surroundings can't serve (bus, lock, key)    exit 3
        └── MissingKeyError        a provider needs a key that is not set

The command line maps the class to an exit code; whatever else is raised is a failure of the work or of ours.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

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
"""The remedy for each shortage of the system; whatever else the system says is about what it was asked."""

NO_TEMPORARY_FOLDER = "No usable temporary directory"
"""The beginning of what ``tempfile`` says where no folder can be written."""
NO_THREAD = "can't start new thread"
"""The message of ``threading`` where the system refuses a thread."""

_ABOUT_PLACES: Mapping[int, str] = MappingProxyType({
    errno.ENOENT: "its folder is missing, restore it",
    errno.ENOTDIR: "its folder is missing, restore it",
    errno.EACCES: "correct the permissions",
    errno.EPERM: "correct the permissions",
})


class VibeError(Exception):
    """One sentence: what is wrong, where, what to do."""


class UsageError(VibeError):
    """Wrong input of the user's; nothing was done."""


class ConfigError(UsageError):
    """A setting is wrong. ``where`` is ``file:line`` or the variable or flag, ``key`` the dotted key.

    ``problems`` are all that were found, itself the first.
    """

    def __init__(self, where: str, key: str, problem: str) -> None:
        at = f"{where}: {key}" if key else where
        super().__init__(f"{at}: {problem}")
        self.where = where
        self.key = key
        self.problem = problem
        self.problems: tuple[ConfigError, ...] = (self,)


class EnvironmentFailure(VibeError):
    """The surroundings can't serve what was asked."""


class MissingKeyError(EnvironmentFailure):
    """No API key for a provider. ``in_keyring``: the keyring was to have it."""

    def __init__(self, provider: str, variable: str, *, in_keyring: bool = False) -> None:
        other = "run `vibe setup`, or choose another model with --model"
        super().__init__(
            f"no API key for provider {provider!r}: the keyring does not return {variable} (see `vibe doctor`): "
            f"unlock it, set the environment variable, {other}"
            if in_keyring
            else f"no API key for provider {provider!r}: set the environment variable {variable}, {other}"
        )
        self.provider = provider
        self.variable = variable


def remedy(error: OSError) -> str:
    """Return what helps where a file can't be written."""
    return _REMEDIES.get(error.errno or 0) or _ABOUT_PLACES.get(error.errno or 0) or "check that it is writable"


def shortage(error: BaseException | None) -> str | None:
    """Return what the system has run out of and what helps, if that caused ``error``; waiting work can go on then.

    None: the error is about something else.
    """
    for cause in _causes(error):
        match cause:
            case OSError() if remedy := _REMEDIES.get(cause.errno or 0):
                return f"{cause.strerror}: {remedy}"
            case FileNotFoundError(args=(_, str(said))) if said.startswith(NO_TEMPORARY_FOLDER):
                return "no folder for temporary files can be written: free some disk space, or set TMPDIR to another"
            case MemoryError():
                return f"not enough memory: {_REMEDIES[errno.ENOMEM]}, or raise the limit (`ulimit -v`)"
            case RuntimeError(args=(str(said),)) if said == NO_THREAD:
                return "no more threads: free some processes, or raise their limit (`ulimit -u`)"
            case _:
                pass
    return None


def shortage_in(words: str) -> OSError | None:
    """Return the shortage of the system that another program reports in its ``words``, which are in the C locale."""
    told = (number for number in _REMEDIES if os.strerror(number) in words)
    return next((OSError(number, os.strerror(number)) for number in told), None)


def described(error: BaseException, *, bare: bool = False) -> str:
    """Return the type and text of an error (``bare``: its text), in characters that can be written, whoever made it."""
    text = "its text can't be had"
    with suppress(Exception):  # whatever an error of others raises ends nothing
        text = str(error).encode("utf-8", "replace").decode()
    return text if bare else f"{type(error).__name__}: {text}"


def unexpected(error: BaseException, *, with_what: str = "") -> str:
    """Return the sentence for any other error: what the system lacks, or that it is a defect to report."""
    lacking = shortage(error)
    if lacking is not None:
        return f"the system can't serve that now: {lacking}"
    return f"internal error ({described(error)}); please report it{with_what}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what groups of it hold, and what each was raised from; each once, as a cause may hold its effect."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        match one:
            case BaseExceptionGroup(exceptions=inner):
                pending += inner
            case _:
                pass
        pending.append(one.__cause__ if one.__suppress_context__ else one.__cause__ or one.__context__)


def innermost(error: BaseException) -> BaseException:
    """The first error that task groups wrapped: it cancelled the other tasks, what they raised followed from it."""
    match error:
        case BaseExceptionGroup(exceptions=[BaseException() as inner, *_]):
            return innermost(inner)
        case _:
            return error


SIMILAR = 0.6
"""Names that are less alike (1: equal) are not suggested."""


def closest(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = SIMILAR) -> list[str]:
    """Return at most so many of the known names that are like ``name``, the most similar first."""
    import difflib  # noqa: PLC0415  only for a misspelling

    return difflib.get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(names: Sequence[str], otherwise: str = "") -> str:
    """Return the question for the names that may have been meant; without any, ``otherwise``."""
    return f"did you mean {' or '.join(map(repr, names))}?" if names else otherwise
