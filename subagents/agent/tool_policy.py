"""The rules for the tools a step may use: from its mode and its own lists to patterns of tool names. Pure."""

from __future__ import annotations

from vibe.core.modes import MODE_CATALOG, ExecutionMode

INTERACTIVE_TOOLS = ("ask_user_question",)
"""Tools that need a person at the prompt."""


def step_tools(
    mode: ExecutionMode,
    allowed: tuple[str, ...] | None = None,
    denied: tuple[str, ...] = (),
    *,
    attended: bool = False,
    harmless: tuple[str, ...] = (),
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return patterns of the tools a step may use and of those it may not; a tool must match only the first.

    The step's own ``allowed`` list replaces that of its mode; denials always add up. Patterns are names, globs or
    ``re:`` expressions.

    ``attended`` says that a person is there to be asked. ``harmless`` are the names of a program's tools that change
    nothing; they are allowed in every mode.
    """
    own = (*MODE_CATALOG[mode].default_tools, *INTERACTIVE_TOOLS, *harmless) if allowed is None else allowed
    return own, denied if attended else (*denied, *INTERACTIVE_TOOLS)
