"""Words what a person is asked at a terminal, and reads the answer they type; pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ipc.commands import ApprovalScope
from ipc.events import AnswerEvent, ApprovalRequestEvent, CommandDisplay, DiffDisplay, PlanDecisionEvent, PlannedCommand
from vibe.core.tools.ports import ApprovalAnswer
from vibe.front.cells import Line, cells_of, fit, spread
from vibe.front.start_screen import past_time
from vibe.system.plain_text import ESCAPE, JOINED, one_line, plus_minus
from vibe.view.agent_view import VERBS
from vibe.view.figures import counter
from vibe.view.plan_view import labelled

PREVIEW_LINES = 20
PREVIEW_CHARACTERS = 2_000
"""How much of a file's content is shown: enough to recognize it. What is left out is counted."""
DIFF_LINES = 60
DIFF_CHARACTERS = 6_000
"""The same limits for a diff."""

FULL = frozenset({"command", "path", "file_path", "url"})
"""Arguments that say what will be done; they are always shown in full."""
SHELL, RUN = "bash", "run"
TARGETS = ("url", "file_path", "path")
"""Those of them that the first line of a question already names."""
SHOWN_BY_DIFF = frozenset({"content", "edits", "new_string", "old_string", "replace_all"})
"""Arguments that aren't listed when the diff shows them."""


class AnswerWord(Struct, frozen=True, kw_only=True):
    """An answer to a call: its key, the whole word with the same meaning, and its label. ``scope`` None means no."""

    key: str
    word: str
    says: str
    scope: ApprovalScope | None = None


ANSWERS = (
    AnswerWord(key="y", word="yes", says="yes", scope="once"),
    AnswerWord(key="s", word="session", says="this session", scope="session"),
    AnswerWord(key="a", word="always", says="always here", scope="always"),
    AnswerWord(key="e", word="edits", says="all edits", scope="edits"),
    AnswerWord(key="n", word="no", says="no"),
)
"""The answers, the same and in the same order wherever a person is asked."""
DIGITS = {"1": "y", "2": "s", "3": "a"}
"""The answer keys that digits stand for."""
LASTING = frozenset({"s", "a"})
UNCLEAR = "  Answer with one of these letters.\n"


def answer_for(word: str) -> AnswerWord | None:
    """Return the answer that a key, digit or word means, ignoring case, or None if it means none."""
    small = word.casefold()
    key = DIGITS.get(small, small)
    return next((each for each in ANSWERS if key in {each.key, each.word}), None)


def possible_answers(*, covers: bool, edits: bool) -> list[AnswerWord]:
    """Return the answers to a call: lasting ones only if they would cover something, all edits only for an edit."""
    return [each for each in ANSWERS if (covers or each.key not in LASTING) and (edits or each.scope != "edits")]


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters in other categories that show nothing, or almost nothing."""
_GAP = re.compile(" {40,}")
SHOWN_BLANK = 2
MANY_LINES = 15
MANY_CHARACTERS = 1_500
"""The first line of a longer command is repeated below it, where it can't have scrolled off the screen."""
HEAD_LENGTH = 300


def head_of(request: ApprovalRequestEvent) -> tuple[str, str, str]:
    """Return what would happen, to what, and facts about it, safe to print: ``edit``, ``F?`` and ``+2 −1``.

    For a command that is only ``run``, because the command itself is shown below. Any other tool is named, with its
    target if it has one.
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
    """Return the arguments that neither the first line nor a diff shows, as texts; those shown in full first."""
    in_head = head_of(request)[1].removesuffix("?").split(", ")
    hidden = SHOWN_BY_DIFF if request.diff else frozenset[str]()
    shown = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in request.arguments.items()
        if name not in hidden
    }
    names = [name for name, text in shown.items() if name not in TARGETS or visible(text) not in in_head]
    return {name: shown[name] for name in sorted(names, key=lambda name: name not in FULL)}


def question_text(request: ApprovalRequestEvent, step_id: str = "") -> str:
    """Return the call and its step, its arguments, the rule that asks, and what a lasting yes would cover.

    The text is safe to print.
    """
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
    """Return what confines the call and which rule asks, safe to print; True marks what is out of the ordinary."""
    parts: list[tuple[str, bool]] = []
    if request.confined is not None:
        sandbox = "sandbox: writes here only" if request.confined else "no sandbox: can do whatever you can"
        parts.append((sandbox, not request.confined))
    return [*parts, (f"rule: {visible(why(request))}", request.rule != "permission")]


def covered(request: ApprovalRequestEvent) -> str:
    """Return what a lasting yes would allow, with paths in the folder of the call as they are there; safe to print."""
    folder = f" {request.cwd}/" if request.cwd and request.confined is None else " "  # a command is shown as it is
    keys = (key.removeprefix(f"{request.tool}: ").replace(folder, " ", 1) for key in request.covers)
    return ", ".join("exactly this call" if key.startswith("{") else visible(key) for key in keys)  # its arguments


def why(request: ApprovalRequestEvent) -> str:
    """Return in words the rule that asks."""
    if request.rule != "permission":
        return request.reason or request.rule
    asks = "edits ask" if request.edits else f"{request.tool} asks"
    return request.reason.replace(f"{request.tool} needs your approval", asks, 1) or asks


def prompt_of(request: ApprovalRequestEvent) -> str:
    """Return the prompt, which lists the possible answers."""
    answers = (f"[{each.key}] {each.says}" for each in possible_answers(covers=True, edits=request.edits))
    return f"  {'  '.join(answers)}, or: n WHY  > "


def parse_answer(line: str, request: ApprovalRequestEvent) -> ApprovalAnswer | None:
    """Return the answer given as a key, digit or word; ``n`` may be followed by a reason. None if it is unclear."""
    word, _, reason = line.strip().partition(" ")
    answer = answer_for(word)
    if answer is None or (answer.scope == "edits" and not request.edits):
        return None
    if answer.scope is None:
        return ApprovalAnswer(allow=False, reason=reason.strip())
    return None if reason else ApprovalAnswer(allow=True, scope=answer.scope)


def command_line(planned: PlannedCommand) -> str:
    """Return a line with a command that a plan would run, whole, as the person who accepts it has to read it."""
    return f"  {planned.step_id}{' (check)' if planned.purpose == 'verify' else ''}: {visible(planned.command)}"


def visible(text: str) -> str:
    """Return the text with every character that doesn't print, such as a line break, escaped as in Python.

    Those that join an emoji print as a part of it.
    """
    parts = JOINED.split(text)
    shown = "".join(part if at % 2 else "".join(map(_shown, part)) for at, part in enumerate(parts))
    return _GAP.sub(lambda gap: f" [{len(gap[0]):,} blanks] ", shown)


def _shown(char: str) -> str:
    if char != " " and (unicodedata.category(char) in _UNSEEN or _BLANK.match(char)):
        return char.encode("unicode_escape", errors="surrogatepass").decode("ascii")
    return char


def says_more(request: ApprovalRequestEvent) -> bool:
    """Return whether the summary says something that neither a diff nor the arguments say."""
    shown = {" ".join(value.split()) for value in request.arguments.values() if isinstance(value, str)}
    known = {form for value in shown for form in (value, f"{request.tool} {value}", f"{request.tool}: {value}")}
    return bool(request.summary) and not diff_of(request) and " ".join(request.summary.split()) not in known


def diff_of(request: ApprovalRequestEvent) -> str:
    """Return what a call would change in files; for a new file, all of its text."""
    from vibe.core.tools.edits import asked_diff  # noqa: PLC0415  loaded after the first frame

    return asked_diff(request, whole=True)


def without_gaps(text: str) -> list[str]:
    """Return the lines, with each long run of blank lines replaced by a note."""
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
"""The answer that leaves a decision open."""
OTHER, TYPED = "something else…", "type your answer"
"""The option for the person's own words, and the label where only their own words are wanted."""
_NUMBERS = re.compile(r"[\d\s,;.)]+")


class MenuItem(Struct, frozen=True, kw_only=True):
    """An answer to pick: a label, and a description that may be blank."""

    label: str
    description: str = ""


class NumberedQuestion(Struct, frozen=True, kw_only=True):
    """A question with numbered answers."""

    options: tuple[MenuItem, ...]
    several: bool = False
    """More than one answer may be picked."""
    default: tuple[int, ...] = ()
    """Positions that Enter picks."""
    own_words: bool = False
    """Any other text is an answer too."""
    typed: bool = False
    """Free text is wanted: the options have no numbers and are answered by typing their label."""
    declines: str = "skip"
    """What Esc means, and Enter if there is no default."""


class PickedOptions(Struct, frozen=True, kw_only=True):
    """The positions of the picked options, in the question's order, or the person's own ``words``."""

    positions: tuple[int, ...] = ()
    words: str = ""


OWN_WORDS = PickedOptions()
"""The person wants to answer in their own words, and hasn't typed them yet."""


def choosing_of(decision: PlanDecisionEvent) -> NumberedQuestion:
    """Return a plan's decision as a question with numbered answers."""
    labels = decision.labels if len(decision.labels) == len(decision.options) else decision.options
    about = decision.descriptions if len(decision.descriptions) == len(decision.options) else [""] * len(labels)
    return NumberedQuestion(
        options=tuple(MenuItem(label=label, description=text) for label, text in zip(labels, about, strict=True)),
        several=decision.multi_select,
        default=tuple(decision.options.index(option) for option in decision.default if option in decision.options),
        declines=LATER,
    )


def choosing_of_question(question: Mapping[str, Any]) -> NumberedQuestion:
    """Return an agent's question, as it was published, with its numbered answers."""
    given = question.get("options", ())
    options = tuple(MenuItem(label=one["label"], description=one.get("description", "")) for one in given)
    several, typed = bool(question.get("multi_select")), bool(question.get("typed"))
    return NumberedQuestion(options=options, several=several, own_words=True, typed=typed)


def answered_lines(answers: Sequence[tuple[str, str]], by: str, at: float, cols: int) -> list[Line]:
    """Return questions with their answers, who gave them (as in events), and when (in unix seconds), as lines."""
    who = {"": "you", "user": "you", "timeout": "nobody answered", "default": "by default"}.get(by, one_line(by))
    facts = [(f"{who}, {past_time(at, at)}", "muted")]
    lines: list[Line] = []
    for question, answer in answers:
        asked: Line = [("→ ", "warn"), (one_line(question, ANSWERED_LENGTH), "muted")]
        reply: Line = [("  ", ""), (one_line(answer, ANSWERED_LENGTH), "")]
        is_long = cells_of([*asked, *reply, *facts]) > cols
        lines += [spread(asked, facts, cols), fit(reply, cols)] if is_long else [spread([*asked, *reply], facts, cols)]
    return lines


def answers_of(event: AnswerEvent | PlanDecisionEvent) -> list[tuple[str, str]]:
    """Return the questions and answers in an event; empty if it is no answer."""
    if isinstance(event, AnswerEvent):
        return [(str(each["question"]), str(each["answer"])) for each in event.answers]
    taken = labelled(event, event.selections)
    return [(event.question, taken)] if taken else []


def answers_in(printed: str) -> list[tuple[str, str]]:
    """Return the questions and answers found in what the asking tool reports to its model."""
    return _ANSWERED.findall(printed)


def time_left(decision: PlanDecisionEvent, now: float) -> str:
    """Return when a decision will be taken without the person, and how. ``now`` is in unix seconds."""
    outcome = f"choosing {visible(labelled(decision, decision.default))}" if decision.default else "the plan pauses"
    return f"  in {counter(round(decision.ts + decision.timeout_seconds - now))}: {outcome}"


def options_text(choosing: NumberedQuestion) -> str:
    """Return the numbered answers, one per line; safe to print."""
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


def prompt_text(choosing: NumberedQuestion) -> str:
    """Return the prompt on whose line the person answers."""
    what = "numbers, e.g. 1,2" if choosing.several else "a number"
    if choosing.typed:
        what = "your answer"
    elif choosing.own_words:
        what += " or your own words"
    taken = ", ".join(str(position + 1) for position in choosing.default)
    enter = f"Enter: {taken}, Esc: " if choosing.default else "Enter or Esc: "
    return f"  [{what}; {enter}{choosing.declines}]  > "


def read_choice(line: str, choosing: NumberedQuestion) -> PickedOptions | str | None:
    """Return what a typed line picks, or a sentence on why it is no answer; None if the person declines."""
    text = line.strip(" \t\r\n")
    if line == ESCAPE:
        return None
    if not text:
        return PickedOptions(positions=choosing.default) if choosing.default else None
    if choosing.typed:
        return PickedOptions(words=text)
    if not _NUMBERS.fullmatch(text):
        return PickedOptions(words=text) if choosing.own_words else _wanted(choosing)
    numbers = [int(digits) for digits in re.findall(r"\d{1,6}", text)]
    if choosing.own_words and numbers == [len(choosing.options) + 1]:
        return OWN_WORDS
    return _picked(numbers, choosing)


def _picked(numbers: Sequence[int], choosing: NumberedQuestion) -> PickedOptions | str:
    known = range(1, len(choosing.options) + 1)
    if not numbers or any(number not in known for number in numbers):
        return _wanted(choosing)
    positions = tuple(sorted({number - 1 for number in numbers}))
    if len(positions) > 1 and not choosing.several:
        return "Choose only one."
    return PickedOptions(positions=positions)


def _wanted(choosing: NumberedQuestion) -> str:
    return f"Answer with a number from 1 to {len(choosing.options)}."
