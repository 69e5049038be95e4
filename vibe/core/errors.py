"""Errors a user may read.

    VibeError                      anything that ends a command with one sentence
    ├── UsageError                 bad arguments, bad plan, bad configuration       exit 2
    │   └── ConfigError            a configuration file, variable or flag is wrong
    └── EnvironmentFailure         the surroundings can't serve (bus, lock, key)    exit 3
        └── MissingKeyError        a provider needs a key that is not set

The command line maps the class to an exit code; whatever else is raised is a failure of the work or of ours.
"""

from __future__ import annotations


class VibeError(Exception):
    """One sentence: what is wrong, where, what to do."""


class UsageError(VibeError):
    """What the user gave is wrong; nothing was done."""


class ConfigError(UsageError):
    """A setting is wrong. ``where`` is ``file:line`` or the variable or flag, ``key`` the dotted key."""

    def __init__(self, where: str, key: str, problem: str) -> None:
        at = f"{where}: {key}" if key else where
        super().__init__(f"{at}: {problem}")
        self.where = where
        self.key = key
        self.problem = problem


class EnvironmentFailure(VibeError):
    """The surroundings can't serve what was asked."""


class MissingKeyError(EnvironmentFailure):
    """No API key for a provider."""

    def __init__(self, provider: str, variable: str) -> None:
        super().__init__(
            f"no API key for provider {provider!r}: set the environment variable {variable}, "
            "or choose another model with --model"
        )
        self.provider = provider
        self.variable = variable


def innermost(error: BaseException) -> BaseException:
    """The first error that task groups wrapped: it cancelled the other tasks, what they raised followed from it."""
    match error:
        case BaseExceptionGroup(exceptions=[BaseException() as inner, *_]):
            return innermost(inner)
        case _:
            return error
