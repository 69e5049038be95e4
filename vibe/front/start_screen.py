"""Draws the start screen: folder, agent and model, the plans left unfinished there, and examples to begin with.

``start_lines`` draws the facts known so far; a fact that isn't known yet takes no room.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from planner.plan.status import LEFT
from vibe.front.cells import Line, Piece, cells_of, chained, fit, spread, text_of
from vibe.system.plain_text import counted, date_text, one_line
from vibe.view.figures import dollars, roughly

if TYPE_CHECKING:
    from ipc.events import Expectation
    from planner.store.folder import PlanSummary

INDENT: Final = 3
ROOMY: Final = 60
"""Width in cells from which the lines are indented by ``INDENT``."""
LONGEST: Final = 400
RESUME, LOOK = "resume", "look"
PAUSED_KEYS: Final = (("↓ ↑", "choose"), ("Enter", RESUME), ("Tab", LOOK), ("Esc", "leave it"))
_GAP: Final = 2
_DAY: Final = 86_400
_NAMED_DAYS: Final = 6
"""How many days back a day is called by its name."""
_CENT: Final = 0.01
_PAUSED_WHY: Final = {LEFT: " when you left", "decision": ", waits for a decision"}


class GitFacts(Struct, frozen=True, kw_only=True):
    """A folder's git repository; all fields are blank without one. ``branch`` is blank if none is checked out.

    ``changed`` counts changed and new files; None if that is unknown.
    """

    is_repository: bool = True
    branch: str = ""
    changed: int | None = None


class SandboxFacts(Struct, frozen=True, kw_only=True):
    """The confinement of commands. ``name`` is blank without one; ``has_network``: they reach everything."""

    name: str = ""
    has_network: bool = False


class ModelFacts(Struct, frozen=True, kw_only=True):
    """The model that answers. ``prices`` are USD per million tokens in and out, or None if unknown."""

    name: str
    prices: tuple[float, float] | None = None
    has_key: bool = True


class ProjectFacts(Struct, frozen=True, kw_only=True):
    """Facts about the folder.

    ``docs`` are the instructions that were read, and ``unread`` names one that isn't trusted. ``left`` are plans left
    before their end; ``to_go`` holds by plan id what they still take, as far as that is known. ``tests`` says where the
    project's tests are (blank if there are none), and ``is_empty`` that the folder has no files.
    """

    git: GitFacts = GitFacts()
    docs: Sequence[str] = ()
    unread: str = ""
    tests: str = ""
    is_empty: bool = False
    left: Sequence[PlanSummary] = ()
    to_go: Mapping[str, Expectation] = {}


class AgentFacts(Struct, frozen=True, kw_only=True):
    """Facts about the agent. ``mode`` says what it does unasked; ``is_unbound`` means that this is everything."""

    model: ModelFacts
    mode: str
    is_unbound: bool = False
    sandbox: SandboxFacts | None = None
    tools: int = 0
    skills: int = 0
    servers: int = 0


class StartFacts(Struct, frozen=True, kw_only=True):
    """All that is known at the start; a part that isn't known yet is None.

    ``folder`` is written as a person writes it. A resumed conversation (not ``is_new``) shows only the plans;
    ``with_cards`` are the ids of those whose cards it shows already.
    """

    version: str
    folder: str
    is_new: bool = True
    agent: AgentFacts | None = None
    project: ProjectFacts | None = None
    with_cards: Collection[str] = ()


class StartChoice(Struct, frozen=True, kw_only=True):
    """A line to choose. It is sent if ``is_sent``, else put into the prompt; ``title`` and ``fact`` are shown."""

    line: str
    title: Sequence[Piece]
    fact: str = ""
    short: str = ""
    """Shown instead of the fact where that doesn't fit."""
    is_sent: bool = False
    verb: str = "take it into the line"
    """What Enter does with it."""


# --- choices


def choices(facts: StartFacts, now: float) -> list[StartChoice]:
    """Return the plans that can go on, then the examples; empty until the project is known.

    ``now`` is in unix seconds.
    """
    if facts.project is None:
        return []
    return [*(_left(plan, now) for plan in facts.project.left), *_watching(facts), *_examples(facts)]


def _watching(facts: StartFacts) -> list[StartChoice]:
    """Return a demonstration to watch, for a person who has no key yet."""
    if facts.agent is None or facts.agent.model.has_key or not facts.is_new:
        return []
    title = [("watch a plan build a real function", "")]
    return [StartChoice(line="/plan demo", title=title, fact="20 s, nothing to set up", is_sent=True, verb="watch")]


def _left(plan: PlanSummary, now: float) -> StartChoice:
    done, total = plan.progress
    return StartChoice(
        line=f"/plan resume {plan.plan_id}",
        title=[(one_line(plan.goal, LONGEST), "bold")],
        fact=f"{done} of {total} done · {past_time(plan.updated, now)}",
        short=f"{done}/{total}",
        is_sent=True,
        verb=RESUME,
    )


def _examples(facts: StartFacts) -> list[StartChoice]:
    """Return example prompts that suit the folder; the one about failing tests only if there are tests."""
    project = facts.project
    if project is None or not facts.is_new:
        return []
    if project.is_empty:
        return [_example("write a command line tool that counts words"), _plan("build a small shop, with tests")]
    return [
        _example("explain how this project is built"),
        *([_example("fix the failing tests", one_line(project.tests))] if project.tests else ()),
        _plan("add CSV export, with tests" if project.tests else "add CSV export"),
    ]


def _example(prompt: str, fact: str = "") -> StartChoice:
    return StartChoice(line=prompt, title=[(prompt, "")], fact=fact)


def _plan(goal: str) -> StartChoice:
    title = [("/plan", "accent"), (f" {goal}", "")]
    return StartChoice(line=f"/plan {goal}", title=title, fact="several agents, side by side")


def past_time(at: float, now: float) -> str:
    """Return a past time to the minute: ``17:40``, ``yesterday 17:40``, ``Monday 17:40``, or else the date."""
    if at > now:
        return date_text(at, "%H:%M")
    at = max(at, 0.0)
    then = time.localtime(at)
    days = _day(now) - _day(at)
    clock_time = time.strftime("%H:%M", then)
    if days <= 0:
        return clock_time
    if days == 1:
        return f"yesterday {clock_time}"
    return f"{time.strftime('%A', then)} {clock_time}" if days <= _NAMED_DAYS else time.strftime("%Y-%m-%d", then)


def _day(at: float) -> int:
    """Return the number of the day that a time falls on in the local time zone."""
    local = time.localtime(at)
    return int((at + (local.tm_gmtoff or 0)) // _DAY)


# --- lines


def start_lines(facts: StartFacts, now: float, width: int, rows: int = 0, marked: int | None = None) -> list[Line]:
    """Return the lines of the start screen, each exactly ``width`` cells wide.

    ``marked`` is the index of the marked choice; without one, the line of keys is left out. If there are more than
    ``rows`` lines, the empty ones are dropped; 0 means no limit.
    """
    indent = 0 if not facts.is_new else INDENT if width >= ROOMY else 1
    room = max(1, width - 2 * indent)
    inner = list(_inner(facts, now, room, marked))
    while inner and not text_of(inner[-1]):
        inner.pop()
    if rows and len(inner) > rows:
        inner = [line for line in inner if text_of(line)]
    return [fit([(" " * indent, ""), *line], width) for line in inner]


def _inner(facts: StartFacts, now: float, room: int, marked: int | None) -> Iterator[Line]:
    known = choices(facts, now)
    if not facts.is_new:
        yield from _paused(facts, now, room, marked)
        return
    yield from _head(facts, room)
    yield []
    for name, is_left in (("Paused here", True), ("Try", False)):
        places = [place for place, choice in enumerate(known) if (choice.verb == RESUME) is is_left]
        if places:
            yield [(name, "muted")]
            yield from (_choice(known[place], room, is_marked=place == marked) for place in places)
            yield []
    if marked is not None and marked < len(known):
        yield from _wrapped(_keys(known[marked]), room)


def _choice(choice: StartChoice, room: int, *lead: Piece, is_marked: bool) -> Line:
    left = [*lead, ("▸ ", "bold accent") if is_marked else ("  ", ""), *choice.title]
    return _beside(left, [[(choice.fact, "muted")], [(choice.short, "muted")]], room)


def _paused(facts: StartFacts, now: float, room: int, marked: int | None) -> Iterator[Line]:
    """Yield the unfinished plans of a resumed conversation, and the keys for the marked one."""
    edge = ("▌ ", "warn")
    project, known = facts.project, choices(facts, now)
    if project is not None and len(known) == 1:
        plan = project.left[0]
        ahead = project.to_go.get(plan.plan_id)
        heading = [edge, ("Paused plan  ", "bold warn"), (_stands(plan, now), "")]
        yield _beside(heading, [[(_to_go(ahead) if ahead else "", "muted")]], room)
        if plan.plan_id not in facts.with_cards:
            yield fit([edge, *known[0].title], room)
    else:
        for place, choice in enumerate(known):
            yield _choice(choice, room, edge, ("Paused plan  ", "bold warn"), is_marked=place == marked)
    if marked is not None:
        keys = PAUSED_KEYS[len(known) == 1 :]
        parts: list[Line] = [[(key, "bold warn"), (f" {meaning}", "muted")] for key, meaning in keys]
        yield from ([edge, *line] for line in _wrapped(parts, room - 2))


def _stands(plan: PlanSummary, now: float) -> str:
    """Return a plan's progress, when it was paused, and why."""
    done, total = plan.progress
    why = " as its run broke off" if plan.is_interrupted else _PAUSED_WHY.get(plan.reason or "", "")
    return f"{done} of {total} done · paused {past_time(plan.updated, now)}{why}"


def _to_go(ahead: Expectation) -> str:
    price = "" if not ahead.cost_usd else f", {dollars(ahead.cost_usd)}"
    return f"about {roughly(ahead.seconds)}{price} to go"


def _keys(choice: StartChoice) -> Iterator[Line]:
    yield [("↓ ↑", "bold"), (" choose", "muted")]
    yield [("Enter", "bold"), (f" {choice.verb}", "muted")]
    yield [("or just type", "muted")]


def _wrapped(parts: Iterable[Line], room: int) -> Iterator[Line]:
    """Yield the parts side by side, on as many lines as they need."""
    line: Line = []
    for part in parts:
        if line and cells_of(line) + 3 + cells_of(part) > room:
            yield line
            line = []
        line = [*line, ("   ", ""), *part] if line else part
    yield line


# --- the head


def _head(facts: StartFacts, room: int) -> Iterator[Line]:
    """Yield the facts in two columns, or in one where two have no room."""
    left = [[("vibe", "bold accent"), (f" {one_line(facts.version)}", "muted")], _place(facts), _manner(facts)]
    agent = facts.agent
    right: list[Line] = [] if agent is None else [_model(agent.model), _sandbox(agent), _counts(agent)]
    sides = list(zip_longest(left, right, fillvalue=Line()))
    # The counts may be dropped if the other rows fit side by side.
    if all(cells_of(one) + _GAP + cells_of(other) <= room for one, other in sides[:2]):
        yield from (_beside(one, [other], room) for one, other in sides if one or other)
    else:
        yield from (fit(line, room) for line in (*left, *right) if line)


def _beside(left: Line, facts: Iterable[Line], room: int) -> Line:
    """Return ``left`` with the first of the facts that fits at the right edge without cutting ``left``.

    If none fits, the last one is taken where it is short enough, and ``left`` is cut.
    """
    kept = [fact for fact in facts if text_of(fact)]
    for fact in kept:
        if cells_of(left) + _GAP + cells_of(fact) <= room:
            return spread(left, fact, room)
    is_short = len(kept) > 1 and cells_of(kept[-1]) + _GAP < room // 2
    return spread(left, kept[-1], room) if is_short else fit(left, room)


def _place(facts: StartFacts) -> Line:
    line: Line = [(one_line(facts.folder, LONGEST), "")]
    if facts.project is None:
        return line
    git = facts.project.git
    if not git.is_repository:
        return [*line, (" · no git repository", "muted")]
    line += [(f" · {one_line(git.branch) or 'no branch'}", "muted")]
    if git.changed is not None:
        changed = f"{counted(git.changed, 'file')} changed" if git.changed else "nothing changed"
        line += [(f" · {changed}", "muted")]
    return line


def _manner(facts: StartFacts) -> Line:
    """Return the instructions that were read, and what the agent does unasked."""
    parts: list[Line] = [] if facts.project is None else [_docs(facts.project)]
    if facts.agent is not None:
        parts.append([(facts.agent.mode, "bold failed" if facts.agent.is_unbound else "muted")])
    return chained(parts, (" · ", "muted"))


def _docs(project: ProjectFacts) -> Line:
    if project.docs:
        more = f" and {len(project.docs) - 1} more" if len(project.docs) > 1 else ""
        return [(one_line(project.docs[0]), ""), (f"{more} read", "muted")]
    if project.unread:
        return [(one_line(project.unread), ""), (" not read: folder not trusted", "muted")]
    return [("no AGENTS.md", ""), (" (/init writes one)", "muted")]


def _model(model: ModelFacts) -> Line:
    line: Line = [(one_line(model.name), "")]
    if not model.has_key:
        return [*line, (" · no key yet: /setup", "muted")]
    if model.prices is None:
        return line
    return [*line, (f" · {price(model.prices[0])} in, {price(model.prices[1])} out per M tok", "muted")]


def price(dollars: float) -> str:
    """Return a price per million tokens: ``$2``, ``$0.40``, and more digits below a cent."""
    if dollars == round(dollars):
        return f"${dollars:,.0f}"
    return f"${dollars:,.2f}" if dollars >= _CENT else f"${dollars:.2g}"


def _sandbox(agent: AgentFacts) -> Line:
    sandbox = agent.sandbox
    if sandbox is None:
        return []
    if not sandbox.name:
        return [("no sandbox", "warn"), (" · can do whatever you can", "muted")]
    network = "with network" if sandbox.has_network else "no network"
    return [("sandbox", ""), (f" · {one_line(sandbox.name)}, {network}", "muted")]


def _counts(agent: AgentFacts) -> Line:
    counts = ((agent.tools, "tool"), (agent.skills, "skill"), (agent.servers, "MCP server"))
    return [(" · ".join(counted(number, name) for number, name in counts if number), "muted")]
