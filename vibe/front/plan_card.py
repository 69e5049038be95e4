"""Draws the plan card: a plan while it is written, while it runs and after it has ended.

``card`` draws a view of a plan in a limited number of rows and needs neither a clock nor a widget. Each step has one
row: mark, id, title, bar, time and what it is doing. All bars share one time scale. Rows keep the plan's order and
never change places; where not all of them fit, neighbours fold into one row. ``planning_card`` draws what a planner
reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from textwrap import wrap
from typing import Final, TypeAlias, cast

from msgspec import Struct, structs
from pydantic_core import from_json

from ipc import events as e
from planner.plan.expectation import times_to_come
from planner.plan.status import items_text, status_text
from planner.state.state import ONLY_REASON, SPOILING
from vibe.core.schemas import table_of
from vibe.front.cells import SPINNER, Line, Piece, cells_of, chained, cut, fit, joined, spread
from vibe.front.event_text import READ, step_title
from vibe.front.plan_graph import group_name, sign
from vibe.front.working_line import CHARACTERS_PER_TOKEN, LEAST_STREAM_S, QUIET_S
from vibe.system.grouping import by_key
from vibe.system.plain_text import counted, one_line, plus_minus
from vibe.view.agent_view import PLAN_TOOL, AgentView, CallView, DoneView, TurnView, about
from vibe.view.figures import clock, spending, took
from vibe.view.plan_view import FINAL, RUNNING, PlanView, StepView, labelled, step_name

SCALES: Final = (3, 6, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""The time spans that the bars can cover, in seconds.

A plan that outgrows one span moves to the next, so that bars jump now and then but never creep.
"""
MANY: Final = 60
"""With more steps than this, the card has one row per group of steps."""
TITLES_FROM: Final = 118
"""Width in cells from which a row shows both the title and what the step is doing."""
_NAMED_ITEM: Final = 26
"""The widest a name column gets, in cells, when rows are items of a list, whose titles are their names."""
WIDE: Final = 100
MOST_AHEAD: Final = 1_000
"""With more open steps than this, the card doesn't show when steps are expected to run."""
MOST_ABOVE: Final = 20
"""The most steps whose dependencies are looked at for those that block one."""
LEAST_WHY: Final = 12
"""Cells kept in the closing record for why a check failed, beside who fixed it."""
_TIME: Final = 7
_SIGNS: Final = {
    "completed": ("✓ ", "bold done"),
    "failed": ("✗ ", "bold failed"),
    "cancelled": ("⊘ ", "bold muted"),
    "paused": ("‖ ", "bold warn"),
}
_URGENT: Final = ("ask", "failed", "run")
_NEEDS: Final = {"ask": ("?", "bold warn"), "failed": ("✗", "failed"), "later": ("·", "muted"), "done": ("✓", "done")}


class Fold(Struct, frozen=True):
    """Neighbouring steps that share one row. ``name`` is ``done``, ``later`` or ``at work``."""

    name: str
    steps: list[StepView]


_Row: TypeAlias = StepView | Fold
_Ahead: TypeAlias = Mapping[str, tuple[float, float]]


class _Frame(Struct, frozen=True, kw_only=True):
    """Measurements shared by all rows of one drawing.

    ``now`` is in unix seconds; ``at`` and ``span`` are seconds on the plan's clock. ``ids``, ``titles``, ``bars`` and
    ``words`` are column widths in cells, 0 for a column that is left out. ``ahead`` says when steps are expected to
    work, as far as that is known.
    """

    plan: PlanView
    ahead: _Ahead
    now: float
    at: float
    span: float
    beat: int
    ids: int
    titles: int
    bars: int
    words: int
    chosen: str


def card(plan: PlanView, now: float, width: int, rows: int, *, chosen: str = "", beat: int | None = None) -> list[Line]:
    """Return a plan's card at ``now`` (unix seconds): at most ``rows`` lines, each exactly ``width`` cells wide.

    ``beat`` selects the spinner's frame while a step works; if None, it advances eight times a second. The ``chosen``
    step is marked and always has a row of its own.
    """
    steps = plan.listed(chosen)
    if not steps or rows < 3:
        at = plan.clock(now)
        return [_head(plan, at, _ahead(plan, at), width)][:rows]
    frame = _frame(plan, now, width, chosen, int(now * 8) if beat is None else beat, folds=len(steps) > rows - 2)
    head = _head(plan, frame.at, frame.ahead, width)
    if len(steps) > MANY:
        return [head, *_groups(steps, frame, width, rows - 1)][:rows]
    shown = choose(steps, rows - 2, chosen)
    lines = [head, fit([(" " * (2 + frame.ids + frame.titles), ""), (_ruler(frame.span, frame.bars), "muted")], width)]
    lines += [_fold(row, frame, width) if isinstance(row, Fold) else _step(row, frame, width) for row in shown]
    return lines[:rows]


def card_before(plan: PlanView, width: int) -> list[Line]:
    """Return the line left of the card of an earlier run of a plan."""
    return [spread([("↻ ", "muted"), (one_line(plan.goal, 400), "muted")], [("goes on below", "muted")], width)]


def record(plan: PlanView, width: int, hints: str = "") -> list[Line]:
    """Return the lines below the card of an ended plan: repairs, decisions, time and changed files.

    ``hints`` names the commands that can follow.
    """
    lines: list[Line] = []
    for step in plan.listed():
        name = one_line(step_name(step, plan))
        failures = [check for check in step.checks.values() if check.failures]
        if step.fixed and failures:
            often = {1: "once", 2: "twice"}.get(step.fixed, f"{step.fixed} times")
            who = "the same agent" if step.attempt == 1 else f"try {step.attempt}"
            middle, end = f"  its check failed {often} (", f"); {who} fixed it"
            room = width - cells_of([(name + middle + end, "")]) - 2
            why = cut(one_line(failures[-1].why), max(LEAST_WHY, room))
            lines.append([("  ", ""), (name, "bold"), (middle + why + end, "muted")])
        elif step.status == "failed":
            lines.append([("  ", ""), (name, "bold failed"), (f"  {one_line(step.reason, 400)}", "")])
    for name, taken in plan.state.decisions.items():
        chosen = one_line(labelled(taken, taken.selections))
        by = {"user": "as you decided", "default": "by default", "timeout": "by default, nobody answered"}
        how = by.get(taken.by, f"decided by {one_line(taken.by)}" if taken.by else "")
        lines.append([("  ", ""), (one_line(name), "bold"), (f"  {chosen}" + f", {how}" * bool(how), "muted")])
    lines.append([("  ", ""), (_ended(plan), "")])
    files = {file for step in plan.steps.values() for file in step.files}
    closing = [[(f"{counted(len(files), 'file')} changed {plus_minus([*plan.steps.values()])}", "")]] if files else []
    # An agent's commands may have changed files without a word: only git knows.
    if hints and (files or any(step.spans and sign(step.state.outline)[0] == "◆" for step in plan.steps.values())):
        closing.append([(hints, "muted")])
    beside = chained(closing, ("   ", ""))
    lines += [[("  ", ""), *row] for row in ([beside] if cells_of(beside) + 2 <= width else closing) if row]
    return [fit(line, width) for line in lines]


def _ended(plan: PlanView) -> str:
    """Return a sentence on how a plan ended."""
    at = plan.clock(plan.ended_at or 0.0)
    in_a_row = sum(step.worked(at) for step in plan.steps.values())
    side = f" side by side; {took(in_a_row)} in a row" if in_a_row > at + 1 else ""
    if plan.status == "paused":
        return f"Plan {one_line(status_text(plan.status, plan.state.reason), 400)} · {took(at)}"
    if plan.status == "active":  # its process died
        return f"Plan interrupted · {took(at)} · continue with: vibe plan resume {plan.id}"
    why = f" · {one_line(plan.reason)}" if plan.reason and plan.reason != plan.status and not plan.failed else ""
    return f"Plan {plan.status} · {took(at)}{side}{why}{_against(plan)}"


def _against(plan: PlanView) -> str:
    """Compare the cost of a plan with its estimate; return ``""`` unless both cover the whole plan."""
    expected, cost = plan.state.expected, plan.spent.cost_usd
    whole = plan.done == plan.total and not plan.state.revisions and len(plan.sources) == 1
    if expected is None or not expected.cost_usd or not cost or not whole:
        return ""
    share = round(100 * (cost / expected.cost_usd - 1))
    return f" · {abs(share)} % {'dearer' if share > 0 else 'cheaper'} than estimated" if share else " · as estimated"


def _frame(plan: PlanView, now: float, width: int, chosen: str, beat: int, *, folds: bool) -> _Frame:
    steps = plan.listed(chosen)
    at = plan.clock(now)
    ahead = _ahead(plan, at)
    longest = max(len(step_name(step, plan)) for step in steps)
    most = _NAMED_ITEM if any(step.pattern for step in steps) else 14 if width >= WIDE else 10
    ids = min(max(longest, len("99 at work") if folds else 0), most) + 1
    room = max(0, width - ids - _TIME - 4)
    bars = min(60, room * 2 // 5) if width >= WIDE else max(min(14, room), room * 2 // 5)
    titles = 0
    if width >= TITLES_FROM:
        titles = min(max(len(step_title(step.title)) for step in steps) + 2, (room - bars) // 2)
    expected = 0.0 if not ahead or plan.state.expected is None else plan.state.expected.seconds
    return _Frame(
        plan=plan,
        ahead=ahead,
        now=now,
        at=at,
        span=_scale(max([at, expected, *(end for _, end in ahead.values())])),
        beat=beat,
        ids=ids,
        titles=titles,
        bars=bars,
        words=max(0, room - titles - bars),
        chosen=chosen,
    )


def _scale(seconds: float) -> float:
    return next((float(scale) for scale in SCALES if seconds <= scale), seconds)


def _ahead(plan: PlanView, at: float) -> _Ahead:
    """Return when each step that can still run will work, in seconds of the plan's clock; empty if that is unknown."""
    expected = plan.state.expected
    if expected is None or plan.status != "active":
        return {}
    lost = plan.below({step.id for step in plan.failed.values() if step.state.spoils})
    open_steps = [step for step in plan.steps.values() if not (step.id in lost or step.status in FINAL or step.items)]
    known = expected.steps
    of_lists = {step.id: known[step.pattern] for step in open_steps if step.pattern in known}
    expected = structs.replace(expected, steps={**known, **of_lists}) if of_lists else expected
    if len(open_steps) > MOST_AHEAD or any(step.id not in expected.steps for step in open_steps):
        return {}
    ends = {
        step.id: at + max(0.0, expected.steps[step.id].seconds - step.worked(at))
        for step in open_steps
        if step.status == RUNNING
    }
    return times_to_come([step.state.outline for step in open_steps], expected, ends, at)


# --- the first line -------------------------------------------------------------------------------------------


def _head(plan: PlanView, at: float, ahead: _Ahead, width: int) -> Line:
    sign = _SIGNS.get(plan.status, ("▸ ", "bold accent"))
    facts = plan_facts(plan, at)
    left = max((end - at for _, end in ahead.values()), default=0.0)
    if left >= 1:
        facts.insert(1 if width < 60 else len(facts), (f" · ~{clock(left)} left", "muted"))
    while len(facts) > 1 and width < 60 and sum(len(text) for text, _ in facts) > width // 2:
        facts.pop()  # drops the price first, then the tokens
    return spread([sign, (one_line(plan.goal, 400), "bold")], facts, width)


def plan_facts(plan: PlanView, at: float) -> Line:
    """Return a plan's finished steps, time, tokens and price. ``at`` is a time on its clock."""
    time = clock(at) if plan.status == "active" else took(at)
    facts = [time, *spending(plan.tokens, plan.spent.cost_usd if plan.spent.calls else None)]
    return [(f"{plan.done}/{plan.total}", "bold"), *((f" · {fact}", "muted") for fact in facts)]


# --- a step ---------------------------------------------------------------------------------------------------


def mark(step: StepView, beat: int = 0) -> Piece:
    """Return the sign for how a step stands."""
    state = need(step)
    if state == "done" and (step.reused or step.status != "completed"):
        return ("↻", "done") if step.reused else ("⊘", "muted")
    return need_mark(state, beat)


def need_mark(state: str, beat: int = 0) -> Piece:
    """Return the sign for a need. ``beat`` selects the spinner's frame for a step at work."""
    return _NEEDS.get(state) or (SPINNER[beat % len(SPINNER)], "accent")


def need(step: StepView) -> str:
    """Return what a step needs: ``ask`` (an answer), ``failed``, ``run``, ``later`` or ``done``."""
    if step.items and step.status not in FINAL:
        needs = {need(item) for item in step.items}
        return "ask" if "ask" in needs else "run" if "run" in needs else "later"
    if step.is_asking or step.status == "needs_decision":
        return "ask"
    if step.status == RUNNING or step.replanning:
        return "run"
    return "failed" if step.status == "failed" else "done" if step.status in FINAL else "later"


def _step(step: StepView, frame: _Frame, width: int) -> Line:
    state = need(step)
    name = "bold" if state in _URGENT else "" if state == "done" else "muted"
    line: Line = [mark(step, frame.beat), (" ", ""), *_column((one_line(step_name(step, frame.plan)), name), frame.ids)]
    title = "" if step_name(step, frame.plan) == step.title else step_title(step.title)
    if frame.titles:
        line += _column((title, "muted" if state == "later" else ""), frame.titles)
    spans = step.spans or [span for item in step.items for span in item.spans]
    line += bar(step, frame.at, frame.span, frame.bars) if spans else _to_come(step, frame)
    seconds = step.worked(frame.at) if state != "ask" else _asked(step, frame.at)
    if step.items and spans:
        seconds = max(frame.at if span.end is None else span.end for span in spans) - min(span.start for span in spans)
    shown = "" if not spans else clock(seconds) if state in {"run", "ask"} else took(seconds)
    line += [(f"{cut(shown, _TIME - 1):>{_TIME - 1}} ", "muted"), ("  ", "")]
    words, style = doing(step, frame.plan, frame.now)
    words_cell: Line = [(words, style)] if words or frame.titles else [(title, "muted")]
    line += fit(words_cell, frame.words)
    return fit([(text, f"{style} chosen") for text, style in line] if step.id == frame.chosen else line, width)


def _column(cell: Piece, cells: int) -> Line:
    """Return a cell of a column, with a blank after it however long it is."""
    return [*fit([cell], cells - 1), (" ", "")]


def _asked(step: StepView, at: float) -> float:
    """Return for how many seconds a person has been asked."""
    return next((at - span.start for span in reversed(step.spans) if span.kind == "ask" and span.end is None), 0.0)


def bar(step: StepView, at: float, span: float, cells: int) -> Line:
    """Draw a step's times on the scale.

    ``━`` is work, ``╍`` waiting for a person, and ``✗`` a failed check after which the work went on.
    """
    base = {"done": "done", "failed": "failed"}.get(need(step), "accent")
    base = "muted" if step.status in {"skipped", "cancelled"} else base
    drawn: list[Piece] = [(" ", "")] * cells
    spans = step.spans or [each for item in step.items for each in item.spans]
    for time in spans:
        start, end = _place(time.start, span, cells), _place(at if time.end is None else time.end, span, cells)
        first, behind = int(start), max(int(start) + 1, round(end))
        if time.kind == "check":
            continue
        for cell in range(first, min(behind, cells)):
            drawn[cell] = ("╍", "warn") if time.kind == "ask" else ("━", base)
        if time.end is None and time.kind != "ask" and first < behind - 1 < cells and end % 1 < 0.5:
            drawn[behind - 1] = ("╸", base)
    for time in spans:
        if time.kind == "check" and time.ok is False and time.end is not None and cells:
            drawn[min(cells - 1, int(_place(time.end, span, cells)))] = ("✗", "bold failed")
    return joined(drawn)


def _to_come(step: StepView, frame: _Frame) -> Line:
    """Draw the time in which a step is expected to work as ``┄``."""
    start, end = (_place(time, frame.span, frame.bars) for time in frame.ahead.get(step.id, (0.0, 0.0)))
    cells = 0 if step.id not in frame.ahead else max(1, round(end) - int(start))
    first = min(int(start), frame.bars - cells)
    return fit([(" " * first, ""), ("┄" * cells, "muted")], frame.bars)


def _place(seconds: float, span: float, cells: int) -> float:
    return max(0.0, min(float(cells), seconds / span * cells))


def _ruler(span: float, cells: int) -> str:
    """Draw the time scale, divided into parts that are whole numbers, as far as their labels have room."""
    room = 2 * cells // (3 * len(clock(span)) + 2)
    wanted = (3,) if span in {3, 6, 30, 45, 90, 180, 900} else (4, 2)
    parts = next((parts for parts in wanted if parts <= room and not span % parts), 1)
    drawn = [" "] * cells
    for number in range(parts + 1 if cells >= 12 else 0):
        label = clock(span * number / parts) if number else "0"
        place = min(cells * number // parts - len(label) // 2, cells - len(label))
        drawn[place : place + len(label)] = label
    return "".join(drawn)


# --- its doing -----------------------------------------------------------------------------------------------


def doing(step: StepView, plan: PlanView, now: float) -> Piece:
    """Return what a step is doing, or why it does nothing, with a style."""
    state = need(step)
    if step.items:
        return _items(step, plan, state)
    if state == "ask":
        return (one_line(_question(step, plan), 400), "warn")
    if state == "failed":
        return (one_line(step.reason, 400), "failed")
    if state == "done":
        return _done(step)
    if state == "later":
        return (_waits_for(step, plan), "muted")
    silent = _silence(step, now)
    if silent >= QUIET_S:
        return (f"nothing for {clock(silent)}", "warn")
    words = f"fixing it: {step.failing}" if step.failing else step.doing()
    words = f"{step.model}: {words}" if step.model else f"try {step.attempt}: {words}" if step.attempt > 1 else words
    words = _placed(step, words)
    return (one_line(f"revising the plan › {step.doing()}" if step.replanning else words, 400), "")  # noqa: RUF001  a mark


def _placed(step: StepView, words: str) -> str:
    """Return what a step is doing, prefixed with the machine that does it if that is another one."""
    if step.waits is not None and step.waits.waits_for == "worker":
        return "waits for a worker"
    if step.place is None:
        return words
    return f"{step.worker}: {words}" if step.worker else f"lost with {step.place.worker}, begins again"


def _items(step: StepView, plan: PlanView, state: str) -> Piece:
    """Return the number of items of a list by status, and the first question that one of them asks."""
    asking = next((item for item in step.items if state == "ask" and need(item) == "ask"), None)
    question = f"  {one_line(f'{step_name(asking, plan)} asks: {_question(asking, plan)}', 400)}" if asking else ""
    words = items_text(item.status for item in step.items) + question
    return (words, {"ask": "warn", "failed": "failed"}.get(state, ""))


def _done(step: StepView) -> Piece:
    if step.fixed:
        return (f"fixed itself, {step.fixed + 1} tries", "")
    if step.status == "completed":
        return ("from an earlier plan" * step.reused, "muted")
    return ("left out" if step.reason == ONLY_REASON else one_line(step.reason or step.status, 400), "muted")


def _question(step: StepView, plan: PlanView) -> str:
    """Return the first thing that a step asks."""
    for agent in step.agents.values():
        for request in agent.requests.values():
            return request.asked.replace("run ", "run: ", 1) if request.kind == "approval" else request.asked
    opened = [each for each in plan.state.open.values() if each.step_id == step.id or each.decision_id in gates(step)]
    return opened[0].question if opened else step.doing() or "needs your decision"


def gates(step: StepView) -> Iterable[str]:
    """Return the ids of the decisions that a step waits for."""
    order = step.state.outline.order
    return () if order is None else (*order.when, *([order.decision] if order.decision else ()))


def _waits_for(step: StepView, plan: PlanView) -> str:
    above = [each for each in step.depends_on if each in plan.steps and plan.steps[each].status not in FINAL]
    later = f"after {', '.join(above)}" if above else "queued" * (plan.status == "active" and plan.ended_at is None)
    return held(step, plan, 1) or one_line(later, 400)


def held(step: StepView, plan: PlanView, most: int = MOST_ABOVE) -> str:
    """Return what keeps a step from beginning, in words; blank if it began, or only its place in the plan does.

    The dependencies of at most ``most`` steps, from it upwards, are looked at for those that block it.
    """
    if step.status not in FINAL and (lost := [f"{each.id} {each.status}" for each in _blocking(step, plan, most)]):
        return one_line(f"blocked: {', '.join(lost)}", 400)
    waits = step.waits
    if waits is not None and waits.waits_for == "files":
        orders = [plan.steps.get(each, step).state.outline.order for each in (step.id, *waits.step_ids)]
        why = "no `writes`" if any(order and order.writes is None for order in orders) else "same file"
        return one_line(f"waits for {', '.join(waits.step_ids)} ({why})", 400)
    return "tries again soon" if waits is not None and waits.waits_for == "retry" else ""


def _blocking(step: StepView, plan: PlanView, most: int) -> list[StepView]:
    """Return the steps that ended so that a step can't begin."""
    found, seen = list[StepView](), {step.id}
    waiting = [step] if any(plan.state.counts[status] for status in SPOILING) else []
    for below in islice(waiting, most):  # it grows
        order = below.state.outline.order
        fulfilled = order.on if order else {}
        names = [each for each in below.depends_on if each in plan.steps and not {each} & {*fulfilled, *seen}]
        seen.update(names)
        above = [plan.steps[each] for each in names]
        found += (each for each in above if each.state.spoils)
        waiting += (each for each in above if each.status not in FINAL)
    return found


def _silence(step: StepView, now: float) -> float:
    """Return the seconds since the step's model or command last sent a byte, or 0 where silence means nothing."""
    heard_at = step.current and step.current.heard_at
    return 0.0 if heard_at is None else max(0.0, now - heard_at)


# --- more steps than rows --------------------------------------------------------------------------------------


def choose(steps: Sequence[StepView], room: int, chosen: str = "") -> list[_Row]:
    """Return the rows to show, in plan order; neighbouring steps without a row of their own are folded together.

    Steps that ask, failed, work or are chosen come first; then those that are next; then the most recently finished.
    """
    if len(steps) <= room:
        return list(steps)
    ranks = {"ask": 0, "failed": 1, "run": 2, "later": 3, "done": 4}

    def rank(place: int) -> tuple[bool, int, int]:
        step = steps[place]
        state = need(step)
        return step.id != chosen, ranks[state], -place if state == "done" else place

    order = sorted(range(len(steps)), key=rank)
    urgent = sum(need(step) in _URGENT or step.id == chosen for step in steps)
    for kept in range(min(room, len(steps)), urgent - 1, -1):
        rows = _folded(steps, set(order[:kept]))
        if len(rows) <= room:
            return rows
    return _scarce(steps, order[:urgent], room)


def _folded(steps: Sequence[StepView], kept: set[int]) -> list[_Row]:
    rows: list[_Row] = []
    for place, step in enumerate(steps):
        name = "done" if need(step) in {"done", "failed"} else "later"
        last = rows[-1] if rows else None
        if place in kept:
            rows.append(step)
        elif isinstance(last, Fold) and last.name == name:
            last.steps.append(step)
        else:
            rows.append(Fold(name, [step]))
    return rows


def _scarce(steps: Sequence[StepView], urgent: list[int], room: int) -> list[_Row]:
    """Return the most urgent steps as rows, and one row each for the done, the later and the other working steps."""
    places = set(urgent)
    rest = [step for place, step in enumerate(steps) if place not in places]
    done = Fold("done", [step for step in rest if need(step) == "done"])
    later = Fold("later", [step for step in rest if need(step) != "done"])
    space = room - bool(done.steps) - bool(later.steps)
    kept = set(urgent[: max(1, space if len(urgent) <= space else space - 1)])
    shown = [steps[place] for place in sorted(kept)]
    more = Fold("at work", [steps[place] for place in sorted(places - kept)])
    rows: list[_Row] = [done, *shown, more, later]
    return [row for row in rows if not isinstance(row, Fold) or row.steps][:room]


def _fold(fold: Fold, frame: _Frame, width: int) -> Line:
    first, last = (one_line(step_name(step, frame.plan)) for step in (fold.steps[0], fold.steps[-1]))
    names = first if len(fold.steps) == 1 else f"{first} … {last}"
    worked = [False] * frame.bars
    for time in chain.from_iterable(step.spans for step in fold.steps):
        start = int(_place(time.start, frame.span, frame.bars))
        end = _place(frame.at if time.end is None else time.end, frame.span, frame.bars)
        for cell in range(start, min(frame.bars, max(start + 1, round(end)))):
            worked[cell] = True
    drawn = "".join("━" if each else " " for each in worked)
    style = {"done": "done", "at work": "accent"}.get(fold.name, "muted")
    shown, tail = (f"  {names}", "") if frame.titles else ("", names)
    lead = _column((f"▸ {len(fold.steps)} {fold.name}{shown}", "muted"), 2 + frame.ids + frame.titles)
    return fit([*lead, (drawn, style), (" " * (_TIME + 2), ""), (tail, "muted")], width)


# --- hundreds of steps ------------------------------------------------------------------------------------------


def group_of(step: StepView) -> str:
    """Return the group of a step: its first tag, or else its level."""
    return group_name(step.state.outline, step.depth)


def _groups(steps: Sequence[StepView], frame: _Frame, width: int, rows: int) -> Iterator[Line]:
    """Yield a row per group, with a cell for one or several steps, and then the steps that ask, failed or work.

    Of more groups than rows, those at work are kept, then those that are next.
    """
    groups = by_key((group_of(step), step) for step in steps)
    names = min(18, max(map(len, groups)) + 2)
    most = max(1, rows - 4)
    needs = {name: {need(step) for step in group} for name, group in groups.items()}
    kept = sorted(groups, key=lambda name: (needs[name].isdisjoint(_URGENT), needs[name] == {"done"}))[:most]
    for name in filter(kept.__contains__, groups):
        yield _group(name, groups[name], names, frame, width)
    left = len(groups) - most
    if left > 0:
        yield fit([(f"  … {counted(left, 'more group')}", "muted")], width)
    urgent = sorted((step for step in steps if need(step) in _URGENT), key=lambda step: _URGENT.index(need(step)))
    room = rows - min(len(groups), most) - (left > 0) - 1
    if room <= 0 or not urgent:
        return
    yield fit([], width)
    shown = urgent if len(urgent) <= room else urgent[: room - 1]
    ids = min(_NAMED_ITEM, max([len(step_name(step, frame.plan)) for step in shown] + [8])) + 2
    for step in shown:
        lead: Line = [mark(step, frame.beat), (" ", ""), *_column((one_line(step_name(step, frame.plan)), "bold"), ids)]
        yield fit([*lead, (f"{clock(step.worked(frame.at)):>6}  ", "muted"), doing(step, frame.plan, frame.now)], width)
    if len(shown) < len(urgent):
        yield fit([(f"  … {len(urgent) - len(shown)} more at work", "muted")], width)


def _group(name: str, steps: Sequence[StepView], names: int, frame: _Frame, width: int) -> Line:
    states = [need(step) for step in steps]
    count: Mapping[str, int] = {state: states.count(state) for state in {*states}}
    done = sum(step.status == "completed" for step in steps)
    facts: Line = [(f"{done}/{len(steps)}", "")]
    facts += [(f"  {count['failed']} failed", "failed")] if "failed" in count else []
    facts += [(f"  {count['ask']} asks", "warn")] if "ask" in count else []
    facts += [(f"  {count['run']} at work", "accent")] if "run" in count and len(facts) == 1 else []
    each = max(1, -(-len(steps) // max(1, width - names - 24)))
    cells = [_cell(states[start : start + each]) for start in range(0, len(steps), each)]
    first = next((state for state in (*_URGENT, "later") if state in count), "done")
    named = _column((name, "" if first in _URGENT else "muted"), names)
    return spread([need_mark(first, frame.beat), (" ", ""), *named, *joined(cells)], facts, width)


def _cell(states: Sequence[str]) -> Piece:
    for state, style in (("failed", "failed"), ("ask", "bold warn"), ("run", "accent")):
        if state in states:
            return ("■", style)
    return ("■", "done") if {*states} == {"done"} else ("·", "muted")


# --- a plan that is being written ---------------------------------------------------------------------------------

DID: Final = {READ: "read", "grep": "searched", "glob": "found", "list_dir": "listed", "ask_user_question": "asked"}
"""A planner's tool calls in words. The plan it hands in is shown in rows of its own."""
_KIND: Final = 10
"""Cells for the word that says what the planner did."""
_GAP: Final = ("  ", "")
_LONGEST_WHY: Final = 4
"""Rows at most for what went wrong."""


def planning_card(agent: AgentView, turn: TurnView, now: float, width: int, rows: int, hint: str = "") -> list[Line]:
    """Draw the work on a plan at ``now`` (unix seconds): at most ``rows`` lines, each ``width`` cells wide.

    ``turn`` is the planner's work on this plan. Once it has ended, only its outcome is shown. ``hint`` names the useful
    keys when there is no plan.
    """
    if turn.seconds is not None:
        return _planned(turn, width, hint)
    since = now if agent.prompt is None else agent.prompt.ts
    head: Line = [("▸ ", "bold accent"), ("Planning", "bold"), ("  reads, changes nothing", "muted")]
    lines = [spread(head, _facts(clock(now - since), turn), width)]
    busy = need_mark("ask" if agent.waits_for_you else "run", int(now * 8))
    tools = dict.fromkeys(call.tool for call in chain(turn.did, agent.open_calls.values()))
    lines += [_calls(tool, agent, turn, busy, width) for tool in tools if tool != PLAN_TOOL]
    refused = [call.why for call in turn.did if call.tool == PLAN_TOOL]
    if refused:
        lines.append(fit([*_lead(("✗", "failed"), "refused"), (_problem(refused[-1]), "")], width))
    last = next(reversed(agent.entries.values()), None)
    if isinstance(last, CallView) and last.tool == PLAN_TOOL and last.written:
        lines += _draft(last, agent, busy, now, width, rows - len(lines))
    return lines[:rows]


def _lead(mark: Piece, word: str) -> Line:
    return [mark, (" ", ""), *fit([(word, "muted")], _KIND)]


def _calls(tool: str, agent: AgentView, turn: TurnView, busy: Piece, width: int) -> Line:
    """Return a row for all calls of one tool; it grows to the right and drops the oldest on the left."""
    calls = [call for call in turn.did if call.tool == tool]
    running = [call for call in agent.open_calls.values() if call.tool == tool]
    mark = busy if running else ("✓", "done") if any(call.status == "ok" for call in calls) else ("✗", "failed")
    items: dict[str, Line] = {}
    for call in calls:
        hits = f"  {counted(call.found, 'hit')}" if tool == "grep" and call.status == "ok" else ""
        items[call.about] = [(one_line(call.about), "" if call.status == "ok" else "failed"), (hits, "muted"), _GAP]
    items |= {about(call): [(one_line(about(call)), ""), _GAP] for call in running}
    fact = counted(len(_read(calls)), "file") if tool == READ else took(sum(call.seconds for call in calls))
    shown = list(items.values())
    while len(shown) > 1 and cells_of(chain(*shown)) > width - _KIND - len(fact) - 4:
        del shown[0]
    more = "… " * (len(shown) < len(items))
    return spread([*_lead(mark, DID.get(tool, tool)), (more, "muted"), *chain(*shown)], [(fact, "muted")], width)


def _draft(call: CallView, agent: AgentView, busy: Piece, now: float, width: int, rows: int) -> Iterator[Line]:
    """Yield how much of a plan is written so far, and its newest steps."""
    steps = drafted(call.written)
    seconds = (agent.last_byte_at or now) - (agent.first_byte_at or now)
    speed = f" · {round(agent.streamed / CHARACTERS_PER_TOKEN / seconds)} tok/s" if seconds >= LEAST_STREAM_S else ""
    count = f"{counted(len(steps), 'step')} so far" if steps else ""
    yield spread([*_lead(busy, "writing"), (count, "")], [(clock(now - call.ts) + speed, "muted")], width)
    ids = min(20, max((len(step.id) for step in steps), default=0)) + 2
    for step in steps[max(0, len(steps) - max(0, rows - 1)) :]:
        mark = sign(step) if step.mode else ("·", "muted")
        line: Line = [("    ", ""), mark, (" ", ""), *fit([(one_line(step.id), "bold")], ids)]
        line += [(step_title(step.title), ""), ("▏", "accent")][: 1 + (step is steps[-1])]
        after = one_line(f"after {', '.join(step.depends_on)}") if step.depends_on and width >= 60 else ""
        yield spread(line, [(cut(after, width // 3), "muted")] if after else [], width)


def drafted(written: str) -> list[e.StepOutline]:
    """Return the steps in a partly written plan (JSON). The last one may be incomplete."""
    try:
        document = table_of(from_json(written, allow_partial="trailing-strings"))
    except ValueError:
        return []
    steps = [table_of(step) for step in _list(table_of(document.get("value", document)).get("steps"))]
    return [
        e.StepOutline(
            id=str(step["id"]),
            title=str(step.get("title", "")),
            mode=str(step.get("mode", "")),
            depends_on=tuple(str(table_of(edge).get("step", edge)) for edge in _list(step.get("depends_on"))),
            order=e.WorkOrder(decision=step.get("decision"), command=step.get("command")),
        )
        for step in steps
        if step.get("id")
    ]


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _planned(turn: TurnView, width: int, hint: str) -> list[Line]:
    """Return how planning ended, in one row, or in several if the reason for a failure is long."""
    facts = _facts(took(turn.seconds or 0.0), turn)
    if turn.outcome in {"completed", "interrupted"}:
        done = turn.outcome == "completed"
        head: Line = [("✓ ", "bold done"), ("Planned", "bold")] if done else [("⊘ ", "muted"), ("stopped planning", "")]
        return [spread([*head, (f"  {_sum(turn)}", "muted")], facts, width)]
    why = wrap(f"no plan: {_problem(turn.why)}", max(20, width - 4 - cells_of(facts)))[:_LONGEST_WHY]
    left: list[Line] = [[("  ", ""), (row, "")] for row in why]
    left[0][0] = ("✗ ", "bold failed")
    if cells_of([*left[-1], *facts]) + len(hint) + 5 > width:
        left.append([(" ", "")])
    left[-1].append((f"   {hint}" if len(left) == len(why) else f" {hint}", "muted"))
    return [spread(left[0], facts, width), *(fit(line, width) for line in left[1:])]


def _facts(time: str, turn: TurnView) -> Line:
    spent = turn.spent
    return [(" · ".join([time, *spending(spent.tokens, spent.cost_usd if spent.calls else None)]), "muted")]


def _sum(turn: TurnView) -> str:
    """Summarize a planner's work: ``read 3 files, searched twice``."""
    parts: list[str] = []
    for tool, verb in DID.items():
        calls = [call for call in turn.did if call.tool == tool and call.status == "ok"]
        often = {1: "once", 2: "twice"}.get(len(calls), f"{len(calls)} times")
        parts += [f"read {counted(len(_read(calls)), 'file')}" if tool == READ else f"{verb} {often}"] if calls else []
    return ", ".join(parts)


def _read(calls: Iterable[DoneView]) -> set[str]:
    return {call.about for call in calls if call.status == "ok"}


def _problem(why: str) -> str:
    """Return what is wrong with a plan, without the name of the call that handed it in."""
    return one_line((why.partition("not accepted: ")[2] or why).removeprefix("the plan: "), 400)
