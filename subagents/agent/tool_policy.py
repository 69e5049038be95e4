"""The tools a step may use: pure rules from its mode and its own lists to tool name patterns."""

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
    """The patterns of what one step may use, and of what it may not: a tool is there if only the former name it.

    Its own ``allowed`` list counts if it has one, else its mode's; denials always add up. Patterns are names, globs or
    ``re:`` expressions.

    ``attended``: a person is at the prompt, so that they can be asked. ``harmless`` are the names of those of a program
    that change nothing: any mode has them.
    """
    own = (*MODE_CATALOG[mode].default_tools, *INTERACTIVE_TOOLS, *harmless) if allowed is None else allowed
    return own, denied if attended else (*denied, *INTERACTIVE_TOOLS)
