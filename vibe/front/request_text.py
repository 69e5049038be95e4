"""Texts of what a person is asked at a terminal, and the meaning of the answer typed; pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ipc.events import ApprovalRequestEvent, PlanDecisionEvent
from vibe.core.tools.ports import ApprovalAnswer, ApprovalScope
from vibe.system.plain_text import ESCAPE

PREVIEW_LINES = 20
PREVIEW_CHARACTERS = 2_000
"""Of a file's content: enough to see what it is. What is left out is counted."""
DIFF_LINES = 60
DIFF_CHARACTERS = 6_000
"""The same of a diff."""

FULL = frozenset({"command", "path", "file_path", "url"})
"""Arguments that say what will be done: always shown whole."""
SHOWN_BY_DIFF = frozenset({"content", "edits", "new_string", "old_string", "replace_all"})
"""Arguments that a diff stands for."""

PROMPT = "  [y] once  [s] this session  [a] always here  [n] no, or: n WHY  > "
EDIT_PROMPT = "  [y] once  [s] this session  [e] all edits of this run  [a] always here  [n] no, or: n WHY  > "
UNCLEAR = "  Answer with one of these letters.\n"

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters of other kinds that show nothing, or next to nothing."""
_GAP = re.compile(" {40,}")
SHOWN_BLANK = 2
MANY_LINES = 15
MANY_CHARACTERS = 1_500
"""A longer command's first line is said again below it, where it can't have left the screen."""
HEAD_LENGTH = 300


def question_text(request: ApprovalRequestEvent, step_title: str = "") -> str:
    """Step, tool, summary, arguments, the rule that asks and what a lasting yes would cover; safe to print."""
    whose = f"  for step: {visible(step_title)}" if step_title else ""
    lines = ["", f"? {visible(request.tool)} wants to run{whose}"]
    summary = visible(request.summary)
    if request.summary and not is_repeated(request):
        lines.append(f"    {summary}")
    for name, value in request.arguments.items():
        if not request.diff or name not in SHOWN_BY_DIFF:
            lines += _argument(visible(name), value)
    if request.diff:
        lines += _preview("diff", request.diff, DIFF_LINES, DIFF_CHARACTERS)
    lines.append(f"  {visible(why(request))}")
    if request.covers:
        lines.append(f"  s or a would allow: {covered(request)}")
    return "\n".join(lines) + "\n"


def covered(request: ApprovalRequestEvent) -> str:
    """Return what a lasting yes would let pass; safe to print."""
    exact, keys = f"{request.tool}: {{", map(visible, request.covers)  # a call's arguments are an object
    return ", ".join("exactly this call" if key.startswith(exact) else key for key in keys)


def why(request: ApprovalRequestEvent) -> str:
    """Return the reason for asking."""
    if request.rule == "permission":
        return request.reason
    return f"asked because {request.reason or request.rule}"


def prompt_of(request: ApprovalRequestEvent) -> str:
    """Return the possible answers, as the prompt."""
    return EDIT_PROMPT if request.edits else PROMPT


def parse_answer(line: str, request: ApprovalRequestEvent) -> ApprovalAnswer | None:
    """y, s, e (to an edit), a, n or ``n`` and a reason, or the numbers of the screen; None if it is none of them."""
    word, _, reason = line.strip().partition(" ")
    match word.casefold():
        case "e" | "edits" if request.edits:
            return ApprovalAnswer(allow=True, scope=ApprovalScope.EDITS) if not reason else None
        case "y" | "yes" | "1":
            return ApprovalAnswer(allow=True) if not reason else None
        case "s" | "session" | "2":
            return ApprovalAnswer(allow=True, scope=ApprovalScope.SESSION) if not reason else None
        case "a" | "always" | "3":
            return ApprovalAnswer(allow=True, scope=ApprovalScope.ALWAYS) if not reason else None
        case "n" | "no":
            return ApprovalAnswer(allow=False, reason=reason.strip())
        case _:
            return None


def visible(text: str) -> str:
    """Text in which every character that does not print is spelled out, as Python would: a line break, a colour."""
    shown = text if text.isascii() and text.isprintable() else "".join(map(_shown, text))
    return _GAP.sub(lambda gap: f" [{len(gap[0]):,} blanks] ", shown)


def _shown(char: str) -> str:
    if char != " " and (unicodedata.category(char) in _UNSEEN or _BLANK.match(char)):
        return char.encode("unicode_escape", errors="surrogatepass").decode("ascii")
    return char


def is_repeated(request: ApprovalRequestEvent) -> bool:
    """Return whether the arguments only repeat the summary."""
    shown = {value for value in request.arguments.values() if isinstance(value, str)}
    return any(request.summary in {value, f"{request.tool} {value}", f"{request.tool}: {value}"} for value in shown)


def without_gaps(text: str) -> list[str]:
    """The lines, with a note in place of many that show nothing in a row."""
    lines: list[str] = []
    blank = 0
    for line in [*text.split("\n"), None]:
        if line is not None and not line.strip():
            blank += 1
            continue
        lines += [""] * blank if blank <= SHOWN_BLANK else [f"[{blank} blank lines]"]
        blank = 0
        lines += [] if line is None else [line]
    return lines or [""]


def _argument(name: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if name in FULL:
        first, *others = map(visible, without_gaps(text))
        lines = [f"    {name}: {first}", *(f"      {line}" for line in others)]
        is_long = len(lines) > MANY_LINES or len(text) > MANY_CHARACTERS
        head = next((line.strip() for line in (first, *others) if line.strip()), "")[:HEAD_LENGTH]
        return [*lines, f"    {name} begins with: {head}"] if is_long else lines
    text = text.removesuffix("\n")
    lines = text.split("\n")
    if len(lines) == 1 and len(text) <= 200:
        return [f"    {name}: {visible(text)}"]
    return _preview(name, text, PREVIEW_LINES, PREVIEW_CHARACTERS)


def _preview(name: str, text: str, most_lines: int, most_characters: int) -> list[str]:
    lines = text.split("\n")
    shown = text[:most_characters].split("\n")[:most_lines]
    left_lines = len(lines) - len(shown)
    left = len(text) - len("\n".join(shown))
    more = [f"      … {left:,} more characters" + (f" in {left_lines:,} more lines" if left_lines else "")]
    return [f"    {name}:", *(f"    | {visible(line)}" for line in shown), *(more if left else [])]


LATER = "not now"
"""The answer to a decision that leaves it open."""
_NUMBERS = re.compile(r"[\d\s,;.)]+")


class MenuItem(Struct, frozen=True, kw_only=True):
    """One answer to pick: a label, and a word about it or none."""

    label: str
    description: str = ""


class Choosing(Struct, frozen=True, kw_only=True):
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


class Picked(Struct, frozen=True, kw_only=True):
    """Positions of options, in the order of the question, or ``words`` of the person's own."""

    positions: tuple[int, ...] = ()
    words: str = ""


class Declined(Struct, frozen=True):
    """The person would rather not."""


class OwnWords(Struct, frozen=True):
    """The person wants to say it in their own words, and has not yet."""


class Unclear(Struct, frozen=True):
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
