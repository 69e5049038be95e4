"""Draws the fleet: agents as tiles side by side, each with its last lines.

It draws from a view and needs neither a clock nor a widget. A tile shows a step of the plan with its agents, or an
agent that works on no step. ``places`` lays the tiles out in plan order; ``tile_lines`` draws one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from textwrap import wrap
from typing import Final

from msgspec import Struct

from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent
from vibe.front.cells import Line, Piece, cells_of, fit, spread
from vibe.front.diff_lines import SIGNS, diff_lines
from vibe.front.event_text import CALL_MARKS, TITLE_LENGTH, call_facts, call_title, printed
from vibe.front.plan_card import doing, gates, mark, need, need_mark, plan_facts
from vibe.front.request_text import choosing_of, choosing_of_question, possible_answers
from vibe.system.plain_text import one_line
from vibe.view.agent_view import AgentView, CallView, EntryView, RequestView
from vibe.view.figures import clock, short, took
from vibe.view.plan_view import FINAL, PlanView, StepView, step_name
from vibe.view.view import ENDED, View

LEAST: Final = 60
"""Width in cells of the narrowest tile when several stand side by side."""
LEAST_ROWS: Final = 6
"""Height in rows of the lowest tile when several stand side by side."""
CHOSEN_ROWS: Final = 8
"""Rows that the chosen tile keeps when all tiles are in one column."""
PANEL_ROWS: Final = 6
"""Rows of a tile reserved for the panel that answers its request, which also gets two thirds of the rest."""
GAP: Final = 2
FADE_S: Final = 60.0
"""Seconds after its end until an agent shrinks to a single row."""
FILTERS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(),
    "at work": frozenset({"run", "ask"}),
    "need you": frozenset({"ask", "failed"}),
    "ended": frozenset({"done", "failed"}),
}
"""The filters by name, each with the needs (as in ``plan_card``) that it shows."""
MOST_TEXT: Final = 8_000
"""Characters at the end of a text that are read to find its last lines."""
_PRINTED: Final = 3
"""Lines shown of what a call printed or wrote."""
_PROMPT_LINES, _CALL_LINES = 12, 40
"""Lines shown of a prompt, and of a call, where there is room for all of it."""


class Tile(Struct, frozen=True, kw_only=True):
    """One or more agents on the same thing.

    ``state`` is a need, as in ``plan_card``, and ``request`` the first one open. ``ended_at`` is in unix seconds, or
    None while it goes on.
    """

    id: str
    name: str
    agents: tuple[AgentView, ...]
    state: str
    plan: PlanView | None = None
    step: StepView | None = None
    request: RequestView | None = None
    ended_at: float | None = None


class TilePlace(Struct, frozen=True, kw_only=True):
    """The place of a tile: cells from the left, rows from the top of the sheet, and its size."""

    tile: Tile
    x: int
    y: int
    width: int
    height: int


def tiles(view: View) -> list[Tile]:
    """Return the tiles of the plan's steps in plan order, then those of other agents in the order they began."""
    plan, found = view.plan, list[Tile]()
    if plan is not None:
        for step in plan.steps.values():
            tile = _step_tile(view, plan, step)
            if step.agents or tile.state in {"ask", "run", "failed"}:
                found.append(tile)
                found += [agent_tile(agent) for agent in step.agents.values() if agent.parent_id is not None]
    main = view.main
    free = (agent for agent in view.agents.values() if agent.plan_id is None and agent is not main)
    others = (agent for agent in free if agent.parent_id or agent.asked_at or agent.entries)  # others never worked
    return [*found, *map(agent_tile, others)]


def _step_tile(view: View, plan: PlanView, step: StepView) -> Tile:
    own = tuple(agent for agent in step.agents.values() if agent.parent_id is None)
    asked = _asked(view, plan, step, own)
    state, ended = need(step), step.history[-1].ts if step.status in FINAL and step.history else None
    if state == "run" and plan.ended_at is not None:
        state, ended = "later", plan.ended_at
    return Tile(
        id=f"{plan.id}/{step.id}",
        name=step_name(step, plan),
        agents=own,
        state="ask" if asked is not None else state,
        plan=plan,
        step=step,
        request=asked,
        ended_at=ended,
    )


def _asked(view: View, plan: PlanView, step: StepView, agents: Iterable[AgentView]) -> RequestView | None:
    asked = [request for agent in agents for request in agent.requests.values()]
    names = [name for name, each in plan.state.open.items() if each.step_id == step.id or name in gates(step)]
    decisions = (view.requests.get(f"{plan.id}:{name}") for name in names)
    return next(filter(None, (*asked, *decisions)), None)


def agent_tile(agent: AgentView) -> Tile:
    """Return the tile of a single agent."""
    request = next(iter(agent.requests.values()), None)
    ended = "done" if agent.outcome in {None, "completed", "interrupted"} else "failed"
    name = agent.title or agent.profile or agent.id[:8] or "agent"
    state = "ask" if agent.waits_for_you else "run" if agent.ended_at is None else ended
    return Tile(id=agent.id, name=name, agents=(agent,), state=state, request=request, ended_at=agent.ended_at)


def hearing_agent(tile: Tile) -> AgentView | None:
    """Return the agent of a tile that can be told something.

    It is None if all of them have ended, or if the host itself does the step.
    """
    host = tile.id if tile.step is not None else ""
    return next((each for each in reversed(tile.agents) if each.ended_at is None and each.id != host), None)


def actions(tile: Tile) -> list[tuple[str, str]]:
    """Return the keys that act on a tile now, each with a word for it."""
    has_failed = tile.step is not None and tile.state == "failed"
    hears = hearing_agent(tile) is not None or (has_failed and any(each.id != tile.id for each in tile.agents))
    keys = [("t", "tell it")] if hears else []
    if has_failed:
        keys += [("k", "skip"), ("r", "retry")]
    elif tile.step is not None and tile.ended_at is None:
        keys += [("x", "stop"), ("k", "skip")]
    return [*keys, ("v", "changes")] if tile.step is not None and tile.step.files else keys


# --- places -----------------------------------------------------------------------------------------------------


def places(shown: Sequence[Tile], width: int, rows: int, chosen: str, now: float) -> list[TilePlace]:
    """Return the place of each tile on a sheet of this width, which may be higher than ``rows``.

    If only one column fits, the chosen tile gets the rows left over after each other tile takes two. A tile that ended
    some time before ``now`` (unix seconds) shrinks to one row at the end; where not all fit, one that just ended, too.
    """
    across = (width + GAP) // (LEAST + GAP)
    surplus = len(shown) - (across * (rows // LEAST_ROWS) if across > 1 else 1 + (rows - CHOSEN_ROWS) // 2)
    done = sorted(
        (one for one in shown if one.state == "done"), key=lambda one: (one.id == chosen, one.ended_at or now)
    )
    faded = {tile.id for at, tile in enumerate(done) if at < surplus or now - (tile.ended_at or now) >= FADE_S}
    live = [tile for tile in shown if tile.id not in faded]
    columns = max(1, min(across, len(live)))
    cells, room = (width - GAP * (columns - 1)) // columns, rows - min(len(faded), rows // 4)
    tall = max(LEAST_ROWS, room // -(-len(live) // columns)) if live else 0
    if columns == 1:
        tall = max(CHOSEN_ROWS, room - 2 * (len(live) - 1))
        chosen = chosen if not live or any(tile.id == chosen for tile in live) else live[-1].id
    found: list[TilePlace] = []
    y = 0
    for at, tile in enumerate(live):
        height = 2 if columns == 1 and tile.id != chosen else tall
        found.append(TilePlace(tile=tile, x=at % columns * (cells + GAP), y=y, width=cells, height=height))
        y += height if (at + 1) % columns == 0 or at + 1 == len(live) else 0
    ended = (tile for tile in shown if tile.id in faded)
    return [*found, *(TilePlace(tile=tile, x=0, y=y + at, width=width, height=1) for at, tile in enumerate(ended))]


def neighbour(known: Sequence[TilePlace], chosen: str, way: str) -> str:
    """Return the id of the tile next to the chosen one in a direction: ``left``, ``right``, ``up`` or ``down``."""
    at = next((index for index, place in enumerate(known) if place.tile.id == chosen), 0)
    if way in {"left", "right"}:
        return known[max(0, min(at + (1 if way == "right" else -1), len(known) - 1))].tile.id
    here, sign = known[at], 1 if way == "down" else -1
    further = [place for place in known if (place.y - here.y) * sign > 0]
    return min(further, key=lambda each: ((each.y - here.y) * sign, abs(each.x - here.x)), default=here).tile.id


# --- the first line and the last --------------------------------------------------------------------------------


def fleet_head(view: View, known: Sequence[Tile], now: float, width: int, shown: str = "") -> Line:
    """Return the line above the tiles: the goal, and the overall state at ``now`` (unix seconds)."""
    plan, waiting = view.plan, len(view.requests)
    figures = [] if plan is None else plan_facts(plan, plan.clock(now))
    working = sum(tile.state in {"run", "ask"} for tile in known)
    facts: Line = [*figures[:1], (f"{' · ' * bool(figures)}{working} at work", "muted")]
    facts += [(f" · {waiting} wait{'s' * (waiting == 1)} for you", "warn")] if waiting else []
    facts += figures[1:]
    while len(facts) > 2 and cells_of(facts) + len(" Agents   ") > width:
        facts.pop()  # drops the price first, then the tokens
    about = f"  {shown} only" if shown else "" if plan is None else f"  {one_line(plan.goal, TITLE_LENGTH)}"
    return spread([(" Agents", "bold"), (about, "warn" if shown else "muted")], [*facts, (" ", "")], width)


def key_line(keys: Sequence[tuple[str, str]], width: int) -> Line:
    """Return a line with as many keys as fit, and the way back at its right edge."""
    end: Line = [("Esc", "bold accent"), (" back ", "muted")]
    line: Line = [(" ", "")]
    for key, word in keys:
        more: Line = [(key, "bold accent"), (f" {word}", "muted"), ("   ", "")]
        if cells_of([*line, *more, *end]) > width:
            break
        line += more
    return spread(line, end, width)


# --- a tile -----------------------------------------------------------------------------------------------------


def tile_lines(
    place: TilePlace, now: float, *, chosen: bool = False, beat: int = 0, has_panel: bool = False
) -> list[Line]:
    """Return the lines of a tile at ``now`` (unix seconds), filling its place; ``beat`` selects the spinner's frame.

    With ``has_panel``, a panel shows and answers its request, starting at ``panel_row``.
    """
    tile, width = place.tile, place.width
    if place.height <= 2:
        words = one_line(tile.step.summary, TITLE_LENGTH) if tile.step is not None and place.height == 1 else ""
        lines = [_short_head(tile, width, now, beat, words, chosen=chosen)]
        return lines if place.height == 1 else [*lines, fit([("  ", ""), tile_doing(tile, now)], width)]
    body = _above_panel(place) if has_panel else tile_body(tile, width - 3, place.height - 2, now)
    lines = [tile_head(tile, width, now, chosen=chosen, beat=beat), *(fit([("  ", ""), *line], width) for line in body)]
    return [*lines, *([fit([], width)] * (place.height - len(lines)))]


def panel_row(place: TilePlace) -> int:
    """Return the row of a tile where the panel for its request starts: below its last lines, as far as they fit."""
    return 1 + len(_above_panel(place))


def _above_panel(place: TilePlace) -> list[Line]:
    return transcript_tail(place.tile.agents, place.width - 3, (place.height - PANEL_ROWS) // 3)


def tile_head(tile: Tile, width: int, now: float, *, chosen: bool = False, beat: int = 0) -> Line:
    """Return the rule above a tile, with its name and facts; heavy if it is chosen, amber if it asks."""
    style = "warn" if tile.state == "ask" else "accent" if chosen else "muted"
    left: Line = [("━━ ", style), sign_of(tile, beat), (f" {one_line(tile.name)} ", "bold")]
    right: Line = [(f" {tile_facts(tile, now)} ", "muted")]
    room = width - cells_of(right)
    left = left if cells_of(left) <= room else fit(left, max(0, room))
    return fit([*left, (("━" if chosen else "─") * max(0, room - cells_of(left)), style), *right], width)


def _short_head(tile: Tile, width: int, now: float, beat: int, words: str, *, chosen: bool) -> Line:
    name = (f" {one_line(tile.name)}", "bold" if tile.ended_at is None else "")
    facts: Line = [(f"{tile_facts(tile, now)} ", "muted")]
    line = spread([sign_of(tile, beat), name, (f"  {words}", "muted")], facts, width)
    return [(text, f"{style} chosen") for text, style in line] if chosen else line


def sign_of(tile: Tile, beat: int = 0) -> Piece:
    """Return the sign for how a tile stands; ``beat`` selects the spinner's frame while it works."""
    if tile.state == "later":
        return ("‖", "muted")
    if tile.step is not None and tile.state != "ask":
        return mark(tile.step, beat)
    stopped = tile.state == "done" and tile.agents[0].outcome == "interrupted"
    return ("⊘", "muted") if stopped else need_mark(tile.state, beat)


def tile_facts(tile: Tile, now: float) -> str:
    """Return the tile's model if it may step up, its time without waits for a person, and its tokens.

    The time of a tile that has ended stands still.
    """
    spent = tile.agents[0].spent if tile.step is None else tile.step.spent
    model = "" if tile.step is None else one_line(tile.step.model)
    return " · ".join(filter(None, (model, _time(tile, now), f"{short(spent.tokens)} tok" if spent.tokens else "")))


def _time(tile: Tile, now: float) -> str:
    if tile.step is not None and tile.plan is not None:
        if not tile.step.spans:
            return f"waits {clock(now - tile.request.event.ts)}" if tile.request is not None else ""
        seconds = tile.step.worked(tile.plan.clock(now))
    else:
        began = tile.agents[0].started_at
        seconds = 0.0 if began is None else (tile.ended_at or now) - began
    return clock(seconds) if tile.ended_at is None else took(seconds)


def tile_doing(tile: Tile, now: float) -> Piece:
    """Return what a tile is doing in one line, with a style."""
    if tile.request is not None:
        return (one_line(tile.request.asked, TITLE_LENGTH), "warn")
    if tile.step is not None and tile.plan is not None:
        words, style = doing(tile.step, tile.plan, now)
        return (words, style or "muted")
    return (one_line(tile.agents[0].doing(), TITLE_LENGTH), "muted")


# --- its last lines ---------------------------------------------------------------------------------------------


def tile_body(tile: Tile, width: int, rows: int, now: float) -> list[Line]:
    """Return at most ``rows`` last lines: what the tile's agents said and did, and below that what is asked."""
    tail: list[Line] = []
    if tile.request is not None:
        words = _wrapped(one_line(tile.request.asked, TITLE_LENGTH), width - 2)
        tail = [[("  " if at else "? ", "bold warn"), (line, "bold")] for at, line in enumerate(words)]
        tail = [*tail, *([("  ", ""), *line] for line in _answers(tile.request.event))][:rows]
    elif (now_doing := tile_doing(tile, now))[1] in {"warn", "failed"} or not any(each.entries for each in tile.agents):
        tail = [[("  ", ""), now_doing]]
    return [*transcript_tail(tile.agents, width, rows - len(tail)), *tail]


def _answers(event: ApprovalRequestEvent | QuestionEvent | PlanDecisionEvent) -> list[Line]:
    """Return the answers to a request, with the keys that give them once its tile is chosen."""
    if isinstance(event, ApprovalRequestEvent):
        words = possible_answers(covers=bool(event.covers), edits=event.edits)
        return [[piece for each in words for piece in ((each.key, "bold warn"), (f" {each.word}   ", "muted"))]]
    asked = [choosing_of(event)] if isinstance(event, PlanDecisionEvent) else map(choosing_of_question, event.questions)
    options = next((choosing.options for choosing in asked), ())
    return [[(f"{at} ", "bold warn"), (one_line(each.label), "")] for at, each in enumerate(options, 1)]


def transcript_tail(agents: Iterable[AgentView], width: int, rows: int, *, whole: bool = False) -> list[Line]:
    """Return the last lines of what these agents were told, said and did, in order of time.

    With ``whole``, more of each entry is shown than a tile has room for.
    """
    newest = [entry for agent in agents for entry in islice(reversed(agent.entries.values()), max(0, rows))]
    newest.sort(key=lambda entry: (entry.ts, entry.number), reverse=True)
    lines: list[Line] = []
    for entry in newest:
        if len(lines) >= rows:
            break
        lines = [*_entry_lines(entry, width, rows, whole=whole), *lines]
    return lines[len(lines) - rows :] if len(lines) > rows > 0 else lines if rows > 0 else []


def _entry_lines(entry: EntryView, width: int, rows: int, *, whole: bool) -> list[Line]:
    if isinstance(entry, CallView):
        return _call_lines(entry, width, whole=whole)
    if entry.kind == "answer":
        return [[(line, "")] for line in _tail(entry.text, width, rows)]
    if entry.kind == "reasoning":
        seconds, is_open = int(entry.until - entry.ts), entry.status == "streaming"
        heading = "thinking" if is_open else f"thought for {seconds} s" if seconds > 0 else "thought"
        thoughts = _tail(entry.text, width, _PRINTED) if is_open or whole else []
        return [[(line, "muted")] for line in (heading, *thoughts)]
    shown = entry.text.strip().split("\n")[: _PROMPT_LINES if whole else 1]
    words = [one_line(line, TITLE_LENGTH) for line in shown]
    if entry.kind == "user":
        return [fit([("  " if at else "> ", "accent"), (line, "muted")], width) for at, line in enumerate(words)]
    style = {"warning": "warn", "error": "failed"}.get(entry.status, "muted")
    return [] if entry.name == ENDED else [fit([(line, style)], width) for line in words]


def _call_lines(call: CallView, width: int, *, whole: bool) -> list[Line]:
    outcome = CALL_MARKS.get(call.outcome, ("·", "muted"))
    failed = call.outcome in {"error", "failed"}
    facts: Line = [(words, "failed" if failed else "muted")] if (words := call_facts(call)) else []
    lines = [spread([outcome, (" ", ""), (call_title(call), "")], facts, width)]
    if call.diff and whole:
        for each in islice(diff_lines(call.diff), _CALL_LINES):
            sign = each.sign if each.sign in SIGNS else " "
            lines.append([(f"{each.number}{sign} ", "muted"), (each.text, SIGNS[sign][1])])
        return lines
    if failed or whole or call.status == "running":
        tail = _tail(printed(call.text, call.exit_code), width - 4, _CALL_LINES if whole else _PRINTED)
        lines += [[("  │ ", "muted"), (line, "muted")] for line in tail]
    elif call.diff:
        added = [line[1:] for line in call.diff[-MOST_TEXT:].splitlines() if line[:1] == "+" and line[:3] != "+++"]
        lines += [[("    ", ""), (_plain(line), "muted")] for line in added[-_PRINTED + 1 :]]
    return lines


def _tail(text: str, width: int, most: int) -> list[str]:
    """Return the last lines of a text, wrapped and without blank lines."""
    found: list[str] = []
    for line in reversed(text[-MOST_TEXT:].splitlines()):
        if len(found) >= most:
            break
        if line.strip():
            found = [*_wrapped(_plain(line), width), *found]
    return found[-most:] if most > 0 else []


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line wrapped between words; the lines are shorter if it has wide characters."""
    return wrap(line, max(2, width if cells_of([(line, "")]) == len(line) else width // 2))


def _plain(line: str) -> str:
    """Return a line that can't move the cursor, keeping its leading blanks."""
    text = line.expandtabs(4)
    return " " * min(20, len(text) - len(text.lstrip())) + one_line(text, 1_000)
