"""Patterns that choose names: exact, glob, or a regular expression after ``re:``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, cast

from vibe.core.errors import ConfigError

REGEX_PREFIX = "re:"


class NamePatterns:
    """Patterns over names, case-sensitive; each matches the whole name. ``where`` and ``key`` say where they are set.

    Raises:
        ConfigError: A regular expression is not valid.
    """

    def __init__(self, patterns: Iterable[str], *, where: str = "patterns", key: str = "") -> None:
        self.patterns = tuple(patterns)
        self._tests = tuple(_compile(pattern, where, key) for pattern in self.patterns)

    def matches(self, name: str) -> bool:
        """Return whether any pattern matches ``name``."""
        return any(test(name) for test in self._tests)

    def unmatched(self, names: Iterable[str]) -> tuple[str, ...]:
        """The patterns that match none of ``names``, in order: most likely misspelled."""
        known = tuple(names)
        tests = zip(self.patterns, self._tests, strict=True)
        return tuple(pattern for pattern, test in tests if not any(test(name) for name in known))


def _compile(pattern: str, where: str, key: str) -> Callable[[str], bool]:
    if not pattern.startswith(REGEX_PREFIX):
        return lambda name: fnmatchcase(name, pattern)
    expression = pattern.removeprefix(REGEX_PREFIX)
    try:
        regex = re.compile(expression)
    except re.error as error:
        problem = f"{pattern!r} is not a valid regular expression ({error}), correct it"
        raise ConfigError(where, key, problem) from error
    linear = compile_linear(expression) or regex  # what only Python takes is a user's own: plans are checked for it
    return lambda name: linear.fullmatch(name) is not None


def compile_linear(expression: str) -> Any:
    """A valid regular expression for RE2, which takes no longer than its text is long.

    None where RE2 does not take it.
    """
    import re2

    engine = cast("Any", re2)  # without types
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(expression, options)
    except engine.error:
        return None
