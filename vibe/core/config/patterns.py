"""Patterns that select names (exact, glob, or a regular expression after ``re:``), and the aliases of tools.

A tool has our name, and may have others in Mistral Vibe and in other agents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, cast

from vibe.system.errors import ConfigError

REGEX_PREFIX = "re:"


class NamePatterns:
    """Case-sensitive patterns that match whole names. ``where`` and ``key`` say where they are set, for errors.

    Raises:
        ConfigError: a regular expression is not valid.
    """

    def __init__(self, patterns: Iterable[str], *, where: str = "patterns", key: str = "") -> None:
        self.patterns = tuple(patterns)
        self._tests = tuple(_compile(pattern, where, key) for pattern in self.patterns)

    def matches(self, name: str) -> bool:
        """Return whether any pattern matches ``name``."""
        return any(test(name) for test in self._tests)

    def unmatched(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the patterns that match none of ``names``, in order; they are probably misspelled."""
        known = tuple(names)
        tests = zip(self.patterns, self._tests, strict=True)
        return tuple(pattern for pattern, test in tests if not any(test(name) for name in known))


def left_out(
    kind: str,
    names: Iterable[str],
    enabled: tuple[str, ...],
    disabled: tuple[str, ...],
    warnings: list[str],
    places: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Map each name that ``enabled_<kind>s`` or ``disabled_<kind>s`` leaves out to the setting that does so.

    If both are set, only the first counts. ``places`` says where they are set, for errors. Patterns that match nothing
    are added to ``warnings``.

    Raises:
        ConfigError: a pattern is not valid.
    """
    known = sorted(set(names))
    keep_key, drop_key = f"enabled_{kind}s", f"disabled_{kind}s"
    keep = NamePatterns(enabled, where=places.get(keep_key, "the configuration"), key=keep_key)
    drop = NamePatterns(disabled, where=places.get(drop_key, "the configuration"), key=drop_key)
    for key, patterns in ((keep_key, keep), (drop_key, drop)):
        for pattern in patterns.unmatched(known):
            warnings.append(f"{key}: {pattern!r} matches no {kind}; available: {', '.join(known) or 'none'}")
    if not enabled:
        return {name: drop_key for name in known if drop.matches(name)}
    if disabled:
        warnings.append(f"{drop_key} is ignored because {keep_key} is set")
    return {name: keep_key for name in known if not keep.matches(name)}


def _compile(pattern: str, where: str, key: str) -> Callable[[str], bool]:
    if not pattern.startswith(REGEX_PREFIX):
        return lambda name: fnmatchcase(name, pattern)
    expression = pattern.removeprefix(REGEX_PREFIX)
    try:
        regex = re.compile(expression)
    except re.error as error:
        problem = f"{pattern!r} is not a valid regular expression ({error}), correct it"
        raise ConfigError(where, key, problem) from error
    linear = compile_linear(expression) or regex  # only the user's own patterns may need Python's engine
    return lambda name: linear.fullmatch(name) is not None


def compile_linear(expression: str) -> Any:
    """Compile a regular expression with RE2, which matches in linear time.

    Return None if RE2 does not support the expression or is not installed.
    """
    engine = linear_engine()
    if engine is None:
        return None
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(expression, options)
    except engine.error:
        return None


def linear_engine() -> Any:
    """Return the RE2 module, or None: it has no wheels for some systems."""
    try:
        import re2
    except ImportError:
        return None
    return cast("Any", re2)  # it has no types


TOOL_ALIASES = MappingProxyType({
    "read": "read_file",
    "edit": "search_replace",
    "write": "write_file",
    "webfetch": "web_fetch",
})


def canonical_tool_name(name: str) -> str:
    """Return our name for a tool of Mistral Vibe; patterns and all other names are returned unchanged."""
    return TOOL_ALIASES.get(name, name)


def tool_spellings(name: str) -> tuple[str, ...]:
    """Return all names of the tool, ours first."""
    ours = canonical_tool_name(name)
    return (ours, *(alias for alias, named in TOOL_ALIASES.items() if named == ours))


FOREIGN_NAMES = MappingProxyType({
    **TOOL_ALIASES,
    "askuserquestion": "ask_user_question",
    "bash": "bash",
    "glob": "glob",
    "grep": "grep",
    "ls": "list_dir",
    "multiedit": "search_replace",
    "runshellcommand": "bash",
    "shell": "bash",
    "skill": "skill",
    "task": "task",
    "todoread": "todo",
    "todowrite": "todo",
})
"""Our names for the tools of other agents, keyed by their names in lower case without underscores."""

_SERVER_TOOL = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")


def our_tool_name(name: str) -> str:
    """Return our name for the tool that another agent calls ``name``; patterns and our own names stay unchanged."""
    server = _SERVER_TOOL.fullmatch(name)
    if server:
        return f"{server['server']}_{server['tool']}"
    return FOREIGN_NAMES.get(name.replace("_", "").casefold(), name)
