"""Text of a question with numbered answers, and the meaning of the answer typed; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ipc.events import PlanDecisionEvent
from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.dialogue import ESCAPE

LATER = "not now"
"""The answer to a decision that leaves it open."""
_NUMBERS = re.compile(r"[\d\s,;.)]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuItem:
    """One answer to pick: a label, and a word about it or none."""

    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """A question with numbered answers."""

    options: tuple[MenuItem, ...]
    several: bool = False
    """More than one answer may be picked."""
    default: tuple[int, ...] = ()
    """Positions that Enter takes."""
    own_words: bool = False
    """Other text is an answer, too."""
    typed: bool = False
    """Other text is what is wanted: the options have no numbers, and are typed as they are called."""
    declines: str = "rather not say"
    """The meaning of Esc and, without a default, Enter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """Positions of options, in the order of the question, or ``words`` of the person's own."""

    positions: tuple[int, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Declined:
    """The person would rather not."""


@dataclass(frozen=True, slots=True)
class OwnWords:
    """The person wants to say it in their own words, and has not yet."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """The text typed is no answer."""

    why: str
    """The reason, in a line."""


Reading: TypeAlias = Picked | Declined | OwnWords | Unclear


def choosing_of(decision: PlanDecisionEvent) -> Choosing:
    """The decision as a question with numbered answers."""
    labels = decision.labels if len(decision.labels) == len(decision.options) else decision.options
    about = decision.descriptions if len(decision.descriptions) == len(decision.options) else [""] * len(labels)
    return Choosing(
        options=tuple(MenuItem(label=label, description=text) for label, text in zip(labels, about, strict=True)),
        several=decision.multi_select,
        default=tuple(decision.options.index(option) for option in decision.default if option in decision.options),
        declines=LATER,
    )


def choosing_of_question(question: Mapping[str, Any]) -> Choosing:
    """A question of an agent, as it was announced, with its numbered answers."""
    options = tuple(MenuItem(label=one["label"], description=one.get("description", "")) for one in question["options"])
    several, typed = bool(question.get("multi_select")), bool(question.get("typed"))
    return Choosing(options=options, several=several, own_words=True, typed=typed)


def time_left(decision: PlanDecisionEvent, now: float) -> str:
    """Return when a decision is taken without the person, and how; ``now`` in unix seconds."""
    left = max(0, round(decision.ts + decision.timeout_seconds - now))
    hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
    clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    known = dict(zip(decision.options, decision.labels, strict=False))
    labels = [known.get(option, option) for option in decision.default]
    outcome = f"choosing {visible(', '.join(labels))}" if decision.default else "the plan pauses"
    return f"  in {clock}: {outcome}"


def options_text(choosing: Choosing) -> str:
    """The numbered answers, a line each; safe to print."""
    if choosing.typed:
        return f"   or type: {' | '.join(visible(option.label) for option in choosing.options)}\n"
    lines: list[str] = []
    for position, option in enumerate(choosing.options):
        mark = "*" if position in choosing.default else " "
        about = f": {visible(option.description)}" if option.description else ""
        lines.append(f"  {mark}{position + 1}) {visible(option.label)}{about}")
    if choosing.own_words:
        lines.append(f"   {len(choosing.options) + 1}) other: in your own words")
    return "\n".join(lines) + "\n"


def prompt_text(choosing: Choosing) -> str:
    """The line the person answers on."""
    what = "numbers, e.g. 1,2" if choosing.several else "a number"
    if choosing.typed:
        what = "your answer"
    elif choosing.own_words:
        what += " or your own words"
    taken = ", ".join(str(position + 1) for position in choosing.default)
    enter = f"Enter: {taken}, Esc: " if choosing.default else "Enter or Esc: "
    return f"  [{what}; {enter}{choosing.declines}]  > "


def read_choice(line: str, choosing: Choosing) -> Reading:
    """Return the meaning of a typed line."""
    text = line.strip(" \t\r\n")
    if line == ESCAPE:
        return Declined()
    if not text:
        return Picked(positions=choosing.default) if choosing.default else Declined()
    if choosing.typed:
        return Picked(words=text)
    if not _NUMBERS.fullmatch(text):
        return Picked(words=text) if choosing.own_words else Unclear(_wanted(choosing))
    numbers = [int(digits) for digits in re.findall(r"\d{1,6}", text)]
    if choosing.own_words and numbers == [len(choosing.options) + 1]:
        return OwnWords()
    return _picked(numbers, choosing)


def _picked(numbers: Sequence[int], choosing: Choosing) -> Reading:
    known = range(1, len(choosing.options) + 1)
    if not numbers or any(number not in known for number in numbers):
        return Unclear(_wanted(choosing))
    positions = tuple(sorted({number - 1 for number in numbers}))
    if len(positions) > 1 and not choosing.several:
        return Unclear("Choose only one.")
    return Picked(positions=positions)


def _wanted(choosing: Choosing) -> str:
    return f"Answer with a number from 1 to {len(choosing.options)}."
