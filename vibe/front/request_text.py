"""Texts of what a person is asked at a terminal, and the meaning of the answer typed; pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ipc.events import AnswerEvent, ApprovalRequestEvent, CommandDisplay, DiffDisplay, PlanDecisionEvent
from vibe.core.tools.ports import ApprovalAnswer, ApprovalScope
from vibe.front.cells import Line, cells_of, fit, spread
from vibe.front.event_text import one_line, plus_minus
from vibe.front.start_screen import moment
from vibe.system.plain_text import ESCAPE
from vibe.view.agent_view import VERBS
from vibe.view.figures import counter
from vibe.view.plan_view import labelled

PREVIEW_LINES = 20
PREVIEW_CHARACTERS = 2_000
"""Of a file's content: enough to see what it is. What is left out is counted."""
DIFF_LINES = 60
DIFF_CHARACTERS = 6_000
"""The same of a diff."""

FULL = frozenset({"command", "path", "file_path", "url"})
"""Arguments that say what will be done: always shown whole."""
SHELL, RUN = "bash", "run"
TARGETS = ("url", "file_path", "path")
"""Those of them that the head of a question says."""
SHOWN_BY_DIFF = frozenset({"content", "edits", "new_string", "old_string", "replace_all"})
"""Arguments that a diff stands for."""


class AnswerWord(Struct, frozen=True, kw_only=True):
    """An answer to a call: its key, the whole word that means the same, and what it says; ``scope`` None: no."""

    key: str
    word: str
    says: str
    scope: Literal["once", "session", "always", "edits"] | None = None


ANSWERS = (
    AnswerWord(key="y", word="yes", says="yes", scope="once"),
    AnswerWord(key="s", word="session", says="this session", scope="session"),
    AnswerWord(key="a", word="always", says="always here", scope="always"),
    AnswerWord(key="e", word="edits", says="all edits", scope="edits"),
    AnswerWord(key="n", word="no", says="no"),
)
"""The same wherever a person is asked; in this order."""
DIGITS = {"1": "y", "2": "s", "3": "a"}
"""They mean what these keys do."""
LASTING = frozenset({"s", "a"})
UNCLEAR = "  Answer with one of these letters.\n"


def meant(word: str) -> AnswerWord | None:
    """Return the answer of a key, a digit or a word, in upper or lower case; None: it is none."""
    small = word.casefold()
    key = DIGITS.get(small, small)
    return next((each for each in ANSWERS if key in {each.key, each.word}), None)


def offered(*, covers: bool, edits: bool) -> list[AnswerWord]:
    """Return the answers that a call allows: lasting ones if they would cover something, all edits for an edit."""
    return [each for each in ANSWERS if (covers or each.key not in LASTING) and (edits or each.scope != "edits")]


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters of other kinds that show nothing, or next to nothing."""
_GAP = re.compile(" {40,}")
SHOWN_BLANK = 2
MANY_LINES = 15
MANY_CHARACTERS = 1_500
"""A longer command's first line is said again below it, where it can't have left the screen."""
HEAD_LENGTH = 300


def head_of(request: ApprovalRequestEvent) -> tuple[str, str, str]:
    """Return what would happen, to what, and facts about it, safe to print: ``edit``, ``F?`` and ``+2 −1``.

    A command stands below its head, ``run``; another tool is named, with its target if it has one.
    """  # noqa: RUF002  a minus
    display, tool = request.preview, request.tool
    if isinstance(display, DiffDisplay):
        verb = "new" if all(file.created for file in display.files) else "edit"
        names = ", ".join(visible(file.path) for file in display.files)
        return verb, f"{names}?", plus_minus(display.files)
    if isinstance(display, CommandDisplay) or tool == SHELL:
        return RUN, "", ""
    named = (request.arguments.get(name) for name in TARGETS)
    what = next((f" {visible(value)}" for value in named if isinstance(value, str) and "\n" not in value), "")
    verb, _, what = f"{visible(VERBS.get(tool, tool))}{what}?".partition(" ")
    return verb, what, ""


def shown_arguments(request: ApprovalRequestEvent) -> dict[str, str]:
    """Return the arguments that neither the head nor a diff tells, as texts, those that are shown whole first."""
    told = head_of(request)[1].removesuffix("?").split(", ")
    hidden = SHOWN_BY_DIFF if request.diff else frozenset[str]()
    shown = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in request.arguments.items()
        if name not in hidden
    }
    names = [name for name, text in shown.items() if name not in TARGETS or visible(text) not in told]
    return {name: shown[name] for name in sorted(names, key=lambda name: name not in FULL)}


def question_text(request: ApprovalRequestEvent, step_id: str = "") -> str:
    """The call and its step, its arguments, the rule that asks and what a lasting yes would cover; safe to print."""
    verb, what, facts = head_of(request)
    whose = f"for step {visible(step_id)}" if step_id else ""
    lines = ["", "  ".join(filter(None, (f"? {verb} {what}".rstrip(), facts, whose)))]
    if says_more(request):
        lines.append(f"    {visible(request.summary)}")
    for name, value in shown_arguments(request).items():
        lines += _argument(visible(name), value)
    if request.diff:
        lines += _preview("diff", request.diff, DIFF_LINES, DIFF_CHARACTERS)
    lines += [f"  {part}" for part, _ in foot_of(request)]
    if request.covers:
        lines.append(f"  s or a would allow: {covered(request)}")
    return "\n".join(lines) + "\n"


def foot_of(request: ApprovalRequestEvent) -> list[tuple[str, bool]]:
    """Return what confines the call and the rule that asks, safe to print; with True what is out of the usual."""
    parts: list[tuple[str, bool]] = []
    if request.confined is not None:
        sandbox = "sandbox: writes here only" if request.confined else "no sandbox: can do whatever you can"
        parts.append((sandbox, not request.confined))
    return [*parts, (f"rule: {visible(why(request))}", request.rule != "permission")]


def covered(request: ApprovalRequestEvent) -> str:
    """Return what a lasting yes would let pass; safe to print."""
    keys = (key.removeprefix(f"{request.tool}: ") for key in request.covers)
    return ", ".join("exactly this call" if key.startswith("{") else visible(key) for key in keys)  # its arguments


def why(request: ApprovalRequestEvent) -> str:
    """Return the rule that asks, in words."""
    if request.rule != "permission":
        return request.reason or request.rule
    asks = "edits ask" if request.edits else f"{request.tool} asks"
    return request.reason.replace(f"{request.tool} needs your approval", asks, 1) or asks


def prompt_of(request: ApprovalRequestEvent) -> str:
    """Return the possible answers, as the prompt."""
    told = (f"[{each.key}] {each.says}" for each in offered(covers=True, edits=request.edits))
    return f"  {'  '.join(told)}, or: n WHY  > "


def parse_answer(line: str, request: ApprovalRequestEvent) -> ApprovalAnswer | None:
    """A key, a digit or a word of the table; ``n`` takes a reason behind it. None if it is none of them."""
    word, _, reason = line.strip().partition(" ")
    answer = meant(word)
    if answer is None or (answer.scope == "edits" and not request.edits):
        return None
    if answer.scope is None:
        return ApprovalAnswer(allow=False, reason=reason.strip())
    return None if reason else ApprovalAnswer(allow=True, scope=ApprovalScope(answer.scope))


def visible(text: str) -> str:
    """Text in which every character that does not print is spelled out, as Python would: a line break, a colour."""
    shown = text if text.isascii() and text.isprintable() else "".join(map(_shown, text))
    return _GAP.sub(lambda gap: f" [{len(gap[0]):,} blanks] ", shown)


def _shown(char: str) -> str:
    if char != " " and (unicodedata.category(char) in _UNSEEN or _BLANK.match(char)):
        return char.encode("unicode_escape", errors="surrogatepass").decode("ascii")
    return char


def says_more(request: ApprovalRequestEvent) -> bool:
    """Return whether the summary says something that neither a diff nor the arguments say."""
    shown = {value for value in request.arguments.values() if isinstance(value, str)}
    said = {form for value in shown for form in (value, f"{request.tool} {value}", f"{request.tool}: {value}")}
    return bool(request.summary) and not diff_of(request) and request.summary not in said


def diff_of(request: ApprovalRequestEvent) -> str:
    """Return what a call would change in files; of a new one, that is all of its text."""
    display, text = request.preview, request.arguments.get("content")
    if request.diff or not isinstance(display, DiffDisplay) or not isinstance(text, str):
        return request.diff
    from vibe.core.tools.edits import file_diff  # noqa: PLC0415  behind the first frame

    return file_diff(display.files[0].path, None, text, whole=True).text


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


def _argument(name: str, text: str) -> list[str]:
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


_ANSWERED = re.compile(r"(.*?)\n→ ([^\n]*)\n?", re.DOTALL)
ANSWERED_LENGTH = 1_000
LATER = "later"
"""The answer to a decision that leaves it open."""
OTHER, TYPED = "something else…", "type your answer"
"""The option that stands for words of the person's own, and the one where only such are wanted."""
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
    declines: str = "skip"
    """The meaning of Esc and, without a default, Enter."""


class Picked(Struct, frozen=True, kw_only=True):
    """Positions of options, in the order of the question, or ``words`` of the person's own."""

    positions: tuple[int, ...] = ()
    words: str = ""


OWN_WORDS = Picked()
"""The person wants to say it in their own words, and has not yet."""


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
    given = question.get("options", ())
    options = tuple(MenuItem(label=one["label"], description=one.get("description", "")) for one in given)
    several, typed = bool(question.get("multi_select")), bool(question.get("typed"))
    return Choosing(options=options, several=several, own_words=True, typed=typed)


def answered_lines(answers: Sequence[tuple[str, str]], by: str, at: float, cols: int) -> list[Line]:
    """The record of questions with their answers, who gave these (as in events), and when (in unix seconds)."""
    who = {"": "you", "user": "you", "timeout": "nobody answered", "default": "by default"}.get(by, one_line(by))
    facts = [(f"{who}, {moment(at, at)}", "muted")]
    lines: list[Line] = []
    for question, answer in answers:
        asked: Line = [("→ ", "warn"), (one_line(question, ANSWERED_LENGTH), "muted")]
        said: Line = [("  ", ""), (one_line(answer, ANSWERED_LENGTH), "")]
        is_long = cells_of([*asked, *said, *facts]) > cols
        lines += [spread(asked, facts, cols), fit(said, cols)] if is_long else [spread([*asked, *said], facts, cols)]
    return lines


def answers_of(event: AnswerEvent | PlanDecisionEvent) -> list[tuple[str, str]]:
    """The questions and answers in an event; none: it was no answer."""
    if isinstance(event, AnswerEvent):
        return [(str(each["question"]), str(each["answer"])) for each in event.answers]
    taken = labelled(event, event.selections)
    return [(event.question, taken)] if taken else []


def answers_in(printed: str) -> list[tuple[str, str]]:
    """The questions and answers in what the tool that asks tells its model."""
    return _ANSWERED.findall(printed)


def time_left(decision: PlanDecisionEvent, now: float) -> str:
    """Return when a decision is taken without the person, and how; ``now`` in unix seconds."""
    outcome = f"choosing {visible(labelled(decision, decision.default))}" if decision.default else "the plan pauses"
    return f"  in {counter(round(decision.ts + decision.timeout_seconds - now))}: {outcome}"


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
        lines.append(f"   {len(choosing.options) + 1}) {OTHER}")
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


def read_choice(line: str, choosing: Choosing) -> Picked | str | None:
    """Return what a typed line picks, or why it is no answer, in a line; None: the person would rather not."""
    text = line.strip(" \t\r\n")
    if line == ESCAPE:
        return None
    if not text:
        return Picked(positions=choosing.default) if choosing.default else None
    if choosing.typed:
        return Picked(words=text)
    if not _NUMBERS.fullmatch(text):
        return Picked(words=text) if choosing.own_words else _wanted(choosing)
    numbers = [int(digits) for digits in re.findall(r"\d{1,6}", text)]
    if choosing.own_words and numbers == [len(choosing.options) + 1]:
        return OWN_WORDS
    return _picked(numbers, choosing)


def _picked(numbers: Sequence[int], choosing: Choosing) -> Picked | str:
    known = range(1, len(choosing.options) + 1)
    if not numbers or any(number not in known for number in numbers):
        return _wanted(choosing)
    positions = tuple(sorted({number - 1 for number in numbers}))
    if len(positions) > 1 and not choosing.several:
        return "Choose only one."
    return Picked(positions=positions)


def _wanted(choosing: Choosing) -> str:
    return f"Answer with a number from 1 to {len(choosing.options)}."
