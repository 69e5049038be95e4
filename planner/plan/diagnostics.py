"""Errors about plans, their decisions and their transitions, and the words for problems in messages.

VibeError
├── UsageError
│   ├── PlanInvalidError         a plan document breaks the format; carries every problem at once
│   ├── InputsInvalidError       inputs of a plan that are missing, unknown or of another type
│   ├── UnfilledError            a placeholder that names what is not there
│   ├── GraphError               steps that form no DAG
│   ├── DecisionInvalidError     an answer that the decision does not offer
│   └── TooLargeToDrawError      more steps than a drawing can show
└── IllegalTransitionError       a status change that the tables do not allow
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from vibe.system.errors import UsageError, VibeError, closest, did_you_mean
from vibe.system.plain_text import some_of

SHOWN_PROBLEMS = 50
"""The most problems that a message lists."""
_CANDIDATES = 120
_LONGEST_NAME = 200


class Position(NamedTuple):
    """A place in a text, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class Problem(Struct, frozen=True):
    """One thing that is wrong with a document: where, what, and how to fix it.

    ``path`` is like ``steps[2].depends_on[0]``, or empty for the whole document. ``at`` is the place in the text, if a
    person wrote one.
    """

    path: str
    message: str
    fix: str = ""
    at: Position | None = None

    def __str__(self) -> str:
        sentence = f"{self.path}: {self.message}" if self.path else self.message
        return f"{sentence}; {self.fix}" if self.fix else sentence


class PlanInvalidError(UsageError):
    """A plan document breaks the format. ``problems`` holds all problems, the message the first fifty."""

    def __init__(self, where: str, problems: Sequence[Problem]) -> None:
        if len(problems) == 1:
            at = problems[0].at
            message = f"{where}:{at}: {problems[0]}" if at else f"{where}: {problems[0]}"
        else:
            shown = (
                f"  {problem.at}: {problem}" if problem.at else f"  {problem}" for problem in problems[:SHOWN_PROBLEMS]
            )
            lines = [f"{where}: {len(problems)} problems:", *shown]
            if len(problems) > SHOWN_PROBLEMS:
                lines.append(f"  ... and {len(problems) - SHOWN_PROBLEMS} more")
            message = "\n".join(lines)
        super().__init__(message)
        self.where = where
        self.problems = tuple(problems)


class InputsInvalidError(UsageError):
    """Inputs of a plan that are missing, unknown or of another type.

    ``missing`` names the inputs without a value if nothing else is wrong, so that a person can be asked for them.
    """

    def __init__(self, where: str, problems: Sequence[str], missing: Sequence[str]) -> None:
        super().__init__(f"{where}: {'; '.join(problems)}")
        self.missing = tuple(missing)


class UnfilledError(UsageError):
    """A placeholder names something that does not exist, or its value is too long."""


class GraphError(UsageError):
    """The steps form no DAG."""


class DecisionInvalidError(UsageError):
    """An answer that the decision does not offer."""

    def __init__(self, decision_id: str, problem: str) -> None:
        super().__init__(f"decision {decision_id!r}: {problem}")


class UnknownStepError(UsageError):
    """The plan has no step of that id."""

    def __init__(self, step_id: str, known: Iterable[str]) -> None:
        known = list(known)
        otherwise = f"its steps: {listed(known)}"
        super().__init__(f"the plan has no step {quoted(step_id)}; {Suggester().fix(step_id, known, otherwise)}")


class PlanEndedError(UsageError):
    """The plan has ended, so the command no longer applies."""

    def __init__(self, status: str, consequence: str) -> None:
        super().__init__(f"the plan has ended ({status}): {consequence}")


class TooLargeToDrawError(UsageError):
    """The plan has more steps than a readable drawing can show."""

    def __init__(self, steps: int, most: int) -> None:
        super().__init__(
            f"the plan has {steps:,} steps; a drawing shows at most {most:,}: use format tree, dot or mermaid"
        )


class IllegalTransitionError(VibeError):
    """A change of status was requested that the tables of transitions don't allow."""

    def __init__(self, subject: str, previous: str, status: str) -> None:
        super().__init__(
            f"{subject} can't go from {previous!r} to {status!r}: look at its status before you set another"
        )


class Suggester:
    """Finds the closest known name, but only for the first problems of a document, to bound the cost of a bad one."""

    _lookups = SHOWN_PROBLEMS

    def fix(self, name: str, known: Iterable[str], otherwise: str) -> str:
        """Return ``did you mean 'x'?`` if a known name is close enough, else ``otherwise``."""
        if not self._lookups or len(name) > _LONGEST_NAME:
            return otherwise
        self._lookups -= 1
        slack = max(2, len(name) // 2)
        candidates = [text for text in known if abs(len(text) - len(name)) <= slack or name in text]
        if len(candidates) > _CANDIDATES:
            candidates = [text for text in candidates if text[:3] == name[:3] or text[-3:] == name[-3:]][:_CANDIDATES]
        return did_you_mean(closest(name, candidates), otherwise)


def quoted(value: object, limit: int = 60) -> str:
    """Return a value as messages show it: text quoted, all else as JSON, on one line, cut to ``limit`` characters."""
    text = repr(value[: limit + 1] if isinstance(value, str) else value)
    if not isinstance(value, str):
        with suppress(TypeError, ValueError, RecursionError):  # a program's value that is not JSON
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if len(text) <= limit + 2 else f"{text[:limit]}..."


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Return the first ``limit`` names for a message, or 'none'."""
    return some_of((quoted(name)[1:-1] for name in names), limit) or "none"
