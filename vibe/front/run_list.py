"""Draws the list of runs in a terminal: first those that wait for a person, with what they ask, then the others.

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, Final, TypeAlias

from msgspec import Struct
from rich.cells import chop_cells

from ipc.commands import AnswerQuestion, Approve, Decide, RunCommand
from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent
from planner.plan.status import status_text
from vibe.front import request_text as texts
from vibe.front.cells import Line, cells_of, chained, fit, spread, text_of
from vibe.front.event_text import TITLE_LENGTH
from vibe.system.plain_text import counted, one_line
from vibe.view.agent_view import RequestView
from vibe.view.figures import ago, clock, dollars, short

Row: TypeAlias = Mapping[str, Any]
"""A run or a request, as ``vibe.app.watch.rows`` makes them."""

BAR: Final = 14
"""Cells of the progress bar."""
GOAL_CELLS: Final = 36
"""Cells that the goal keeps before the figures beside it are dropped."""
LEAST_ASKED: Final = 30
"""Cells that a question keeps beside its answers."""
MOST_EARLIER: Final = 50
"""Earlier runs listed at most, the newest first."""
WAITING, RUNNING, EARLIER = "Waiting for you", "Running", "Earlier"
SEGMENTS: Final = (
    ("completed", "█", "done"),
    ("in_progress", "▓", "accent"),
    ("needs_decision", "▒", "warn"),
    ("failed", "█", "failed"),
    ("skipped", "▒", "muted"),
    ("cancelled", "▒", "muted"),
)
"""The parts of a progress bar in order: a step status, its character and its style; the rest is still to do."""
ENDS: Final = {"completed": "done", "failed": "failed", "lost": "failed", "cancelled": "muted", "ended": "muted"}
"""The style for each way a run can end."""


def group_of(row: Row) -> str:
    """Return the heading that a run is listed under."""
    return WAITING if row.get("requests") else RUNNING if row.get("live") else EARLIER


def grouped(rows: Mapping[str, Row], query: str = "", most: int | None = MOST_EARLIER) -> dict[str, list[str]]:
    """Return the keys of the runs under each heading, in their order.

    Of the earlier runs only the ``most`` newest are returned, or all of them if it is None. A ``query`` selects the
    runs that contain all of its words, with no such limit.
    """
    words = query.casefold().split()
    groups: dict[str, list[str]] = {WAITING: [], RUNNING: [], EARLIER: []}
    for key, row in rows.items():
        text = f"{row['title']} {row.get('folder', '')} {key}".casefold()
        if all(word in text for word in words):
            groups[group_of(row)].append(key)
    groups[EARLIER] = groups[EARLIER][: None if query else most]
    return {name: keys for name, keys in groups.items() if keys}


class ListPlace(Struct, frozen=True):
    """A place in the list: a run, or one of its requests."""

    run: str
    request: str = ""


def asked_by(key: str, requests: Mapping[str, Row]) -> list[ListPlace]:
    """Return all requests of a run, in order."""
    return [ListPlace(key, request_id) for request_id, row in requests.items() if row["run"] == key]


def head_line(rows: Iterable[Row], requests: int, now: float, cols: int) -> Line:
    """Return the first line: how many requests wait, how many runs are going, and what was spent today.

    Today begins at midnight UTC; only the runs in the list count.
    """
    every = list(rows)
    running = sum(group_of(row) == RUNNING for row in every)
    spent = sum(row.get("cost_usd", 0.0) for row in every if row.get("started_at", 0.0) >= now - now % 86_400)
    line: Line = [(" vibe", "bold")]
    line += [(f" · {requests} waiting", "warn")] if requests else []
    line += [(f" · {running} running", "muted")] if running else []
    return spread(line, [(f"{dollars(spent)} today ", "muted")] if spent else [], cols)


def run_line(row: Row, now: float, cols: int, mark: str = " ") -> Line:
    """Return a run in exactly ``cols`` cells. Figures are dropped before its goal is cut."""
    title = texts.visible(one_line(row["title"] or "(no title)", TITLE_LENGTH))
    facts = _facts(row, now)
    wanted = min(len(title), max(GOAL_CELLS, cols // 3))
    for name in ("cost", "tokens", "checks", "bar", "time"):
        if 3 + wanted + 2 + cells_of(_joined(facts.values())) <= cols:
            break
        facts.pop(name, None)
    style = "bold" if group_of(row) == WAITING else "" if row.get("live") else "muted"
    return spread([(f" {mark} ", "accent"), (title, style)], _joined(facts.values()), cols)


def request_line(row: Row, cols: int) -> Line:
    """Return a run's request, with the keys that answer it, in exactly ``cols`` cells."""
    step = texts.visible(one_line(str(row.get("step") or "")))
    asked: Line = [("   ? ", "bold warn"), (f"{step}  " if step else "", "muted"), (asked_text(row), "")]
    keys: Line = []
    for key, label in options_of(row):
        more: Line = [("  ", ""), (key, "bold accent"), (f" {texts.visible(one_line(label, 24))}", "muted")]
        if cells_of([*keys, *more]) > cols - LEAST_ASKED:
            break
        keys += more
    return spread(asked, [*keys, (" ", "")], cols)


def list_body(
    rows: Mapping[str, Row], requests: Mapping[str, Row], chosen: ListPlace | None, query: str, now: float, cols: int
) -> Iterator[tuple[Line, ListPlace | None]]:
    """Yield the lines of the list, each exactly ``cols`` cells wide, with the place it stands for.

    A run with requests is no place of its own: its line stands for its first request.
    """
    for heading, keys in grouped(rows, query).items():
        yield fit([(f" {heading}", "bold muted")], cols), None
        for key in keys:
            asked = asked_by(key, requests)
            mark = "▸" if chosen is not None and chosen.run == key else " "
            yield run_line(rows[key], now, cols, mark), asked[0] if asked else ListPlace(key)
            for place in asked:
                line = request_line(requests[place.request], cols)
                yield [(text, "chosen") for text, _ in line] if place == chosen else line, place


def request_detail(request: RequestView, cols: int) -> list[Line]:
    """Return the whole request in lines; for a call, what it does, where, and what a lasting yes would cover."""
    event = request.event
    if isinstance(event, ApprovalRequestEvent):
        text = "\n".join(texts.question_text(event).split("\n")[2:])
    else:
        text = "".join(f"{texts.visible(asked)}\n{texts.options_text(options)}" for asked, options in _questions(event))
    pieces = (piece for line in text.rstrip("\n").split("\n") for piece in chop_cells(line, max(8, cols - 6)) or [""])
    return [fit([("     ", ""), (piece, "")], cols) for piece in pieces]


def asked_text(row: Row) -> str:
    """Return the question of a request in one line that is safe to print; for a command, all of it."""
    if row["kind"] == "approval" and row.get("command"):
        return f"run {texts.visible(row['command'])}"
    return texts.visible(row.get("summary", ""))


def options_of(row: Row) -> list[tuple[str, str]]:
    """Return the keys that answer a request, with their labels; empty if it wants words or several answers."""
    if row["kind"] == "approval":
        return [(each.key, each.word) for each in texts.possible_answers(covers=bool(row.get("covers")), edits=False)]
    labels: list[str] = row.get("labels") or row.get("options", [])
    if row["kind"] == "question":
        questions: list[Row] = row.get("questions", [])
        row = questions[0] if len(questions) == 1 else {}
        labels = [each["label"] for each in row.get("options", ())]
    shown = [] if row.get("multi_select") else labels[:9]
    return [(str(number), label) for number, label in enumerate(shown, start=1)]


def answer_of(request: RequestView, key: str, by: str) -> RunCommand | None:
    """Return the command that a key from ``options_of`` stands for, or None if the key is no answer."""
    event = request.event
    if isinstance(event, ApprovalRequestEvent):
        word = texts.answer_for(key)
        if word is None or word not in texts.possible_answers(covers=bool(event.covers), edits=False):
            return None
        return Approve(request_id=request.id, allow=word.scope is not None, scope=word.scope or "once", by=by)
    (_, choosing), *others = _questions(event)
    place = int(key) - 1 if key.isdecimal() else -1
    if others or choosing.several or not 0 <= place < len(choosing.options):
        return None
    if isinstance(event, QuestionEvent):
        return AnswerQuestion(request_id=request.id, answers=((choosing.options[place].label,),), by=by)
    return Decide(decision_id=event.decision_id, selections=(event.options[place],), by=by)


def _questions(event: QuestionEvent | PlanDecisionEvent) -> list[tuple[str, texts.NumberedQuestion]]:
    """Return all questions asked (at least one), each with the answers to choose from."""
    if isinstance(event, QuestionEvent):
        return [(each["question"], texts.choosing_of_question(each)) for each in event.questions]
    return [(event.question, texts.choosing_of(event))]


def list_lines(rows: Mapping[str, Row], requests: Mapping[str, Row], now: float, cols: int, most: int) -> list[str]:
    """Return the whole list as text, with the commands that answer requests, and at most ``most`` earlier runs."""
    if not rows:
        return ["nothing runs, and nothing has run"]
    head = text_of(head_line(rows.values(), len(requests), now, cols)).removeprefix(" vibe").strip(" ·")
    lines = [head or "nothing runs"]
    for name, keys in grouped(rows, most=most).items():
        lines.append(name)
        for key in keys:
            known_as = texts.visible(key)
            line = text_of(run_line(rows[key], now, max(40, cols - len(known_as) - 4))).strip()
            lines.append(f"  {known_as}  {line}")
            for place in asked_by(key, requests):
                lines += _asked_lines(place, requests[place.request])
    hidden = sum(group_of(row) == EARLIER for row in rows.values()) - most
    return [*lines, *([f"  … {counted(hidden, 'earlier run')}"] if hidden > 0 else [])]


def _asked_lines(place: ListPlace, row: Row) -> list[str]:
    step = f"{texts.visible(one_line(str(row['step'])))}  " if row.get("step") else ""
    options = "  ".join(f"{key} {texts.visible(one_line(label))}" for key, label in options_of(row))
    named = (place.run, place.request.removeprefix(f"{row.get('plan')}:"))
    return [
        f"    ? {step}{asked_text(row)}  {options}".rstrip(),
        f"      vibe events answer {' '.join(quote(texts.visible(each)) for each in named)} ANSWER",
    ]


def _facts(row: Row, now: float) -> dict[str, Line]:
    """Return a run's figures by name, in the order in which they are shown."""
    live, status = row.get("live"), row.get("status", "")
    total, checks = row.get("total", 0), row.get("checks", [])
    begun, ended = row.get("started_at", now), row.get("ended_at") or row.get("started_at", now)
    words = one_line(status_text(status, row.get("reason"))) if status == "paused" else str(status)
    facts: dict[str, Line] = {} if live else {"status": [(words, ENDS.get(status, "warn"))]}
    if total:
        facts["bar"] = bar(row, BAR)
        facts["steps"] = [(f"{row.get('done', 0)}/{total}", "" if live else "muted")]
    if checks and live:
        facts["checks"] = [(f"{checks[0]}✓", "done"), (f" {checks[1]}✗" if checks[1] else "", "failed")]
    facts["tokens"] = [(short(row["tokens"]) if row.get("tokens") and live else "", "muted")]
    facts["cost"] = [(dollars(row["cost_usd"]) if row.get("cost_usd") and live else "", "muted")]
    facts["time"] = [(clock(now - begun) if live else ago(ended, now), "muted")]
    return facts


def bar(row: Row, cells: int) -> Line:
    """Return a run's step progress in exactly ``cells`` cells.

    Each status that occurs has at least one cell, as long as there is room.
    """
    counts: Mapping[str, int] = row.get("counts", {})
    total = max(1, row.get("total", 0))
    line: Line = []
    left = cells
    for status, character, style in SEGMENTS:
        share = min(left, max(1, round(counts.get(status, 0) * cells / total))) if counts.get(status) else 0
        line.append((character * share, style))
        left -= share
    return [*line, ("░" * left, "muted")]


def _joined(facts: Iterable[Line]) -> Line:
    line = chained(facts, ("  ", ""))
    return [*line, (" ", "")] if line else []
