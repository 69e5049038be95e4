"""What the plan format knows and this version does not run: refused when a plan is loaded, never ignored in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A value of a step's field (None: any value but null) that is refused, and what to write instead."""

    field: str
    value: str | bool | None
    fix: str

    def is_in(self, settings: Mapping[str, object]) -> bool:
        """Whether a step's or the defaults' raw fields ask for it."""
        given = settings.get(self.field)
        if self.value is None:
            return given is not None
        return type(given) is type(self.value) and given == self.value

    @property
    def message(self) -> str:
        """What is refused, as a sentence without its end."""
        value = "true" if self.value is True else self.value
        return f"{self.field if value is None else f'{self.field}: {value}'} is not available in this version"


UNSUPPORTED = (
    Unsupported(
        field="workspace",
        value="worktree",
        fix='use "shared" and say in `writes` which files the step changes',
    ),
    Unsupported(field="output_schema", value=None, fix="ask for the output in the prompt and check it with `verify`"),
    Unsupported(field="on_failure", value="replan", fix='use "stop" or "continue"'),
    Unsupported(field="on_failure", value="ask", fix='use "stop" or "continue"'),
    Unsupported(field="side_effects", value=True, fix="leave it out and keep `retries` at 0"),
)
