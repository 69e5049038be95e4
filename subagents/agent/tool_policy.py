"""The tools a step may use: pure rules from its mode and its own lists to tool name patterns."""

from __future__ import annotations

from dataclasses import dataclass

from vibe.core.modes import MODE_CATALOG, ExecutionMode

INTERACTIVE_TOOLS = ("ask_user_question",)
"""Tools that need a person at the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPatterns:
    """Names, globs or ``re:`` patterns. A tool is there if ``allowed`` names it and ``denied`` does not."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...]


def step_tools(
    mode: ExecutionMode,
    allowed: tuple[str, ...] | None = None,
    denied: tuple[str, ...] = (),
    *,
    attended: bool = False,
) -> ToolPatterns:
    """The patterns of one step: its own ``allowed`` list if it has one, else its mode's; denials always add up.

    ``attended``: a person is at the prompt, so that they can be asked.
    """
    return ToolPatterns(
        allowed=(*MODE_CATALOG[mode].default_tools, *INTERACTIVE_TOOLS) if allowed is None else allowed,
        denied=denied if attended else (*denied, *INTERACTIVE_TOOLS),
    )
