"""The dashboard's server: its routes, and serving them on this machine until cancelled."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import PurePath
from socket import socket
from typing import Any, Final, TypeVar

from anyio import lowlevel, move_on_after, sleep_forever, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ipc.errors import IpcError
from ipc.registry import LATEST
from planner.store.folder import find_plan
from vibe.app.engine.host import Host
from vibe.app.plan.report import ReportFormat, render
from vibe.app.watch.board import Board
from vibe.app.watch.runs import Runs
from vibe.dashboard.acting import BY, Actor
from vibe.dashboard.answers import RefusedError, found, read_json, refusal
from vibe.dashboard.changes import net_changes
from vibe.dashboard.guard import MAY_ACT, PageGuard, Tokens, path_parts
from vibe.dashboard.rows import RunTables, entry_row
from vibe.dashboard.search import MOST_HITS, found_in_journals, found_in_rows, found_in_view
from vibe.dashboard.stream import PageDesk, stream
from vibe.system import loopback
from vibe.system.errors import VibeError
from vibe.system.racing import bare_task_group
from vibe.view.agent_view import EntryView

T = TypeVar("T")

VERSION = 1
"""Version of the API. What it offers will stay."""
SETTINGS: Final = {"lifespan": "off", "ws": "none", "server_header": False, "proxy_headers": False}
OLDER_SECONDS = 10.0
"""Maximum time for reading older entries from journals, in seconds."""
ENDLESS = 1 << 53
MOST_WANTED = 200
"""Maximum length of a text to search for, in characters."""
MOST_LIMIT, LIMIT = 400, 200
"""Number of a step's entries in one response: the maximum, and the default."""
MEDIA_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
"""The policy of a report, which brings its own style and nothing that runs."""
FRAME_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "
    "frame-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""The policy of the page around a report. It allows the report's style, and a frame in which nothing runs."""
POLICIES: Final[Mapping[str, Mapping[str, str]]] = {"report.html": {"content-security-policy": FRAME_POLICY}}
NO_CONTROL = "this page may only look: start `vibe dashboard --web --control` to act"


def page_files() -> dict[str, Response]:
    """Return responses with the files of the page, by name. Blocks."""
    folder = files("vibe.dashboard").joinpath("page")
    kept = [(file, kind) for file in folder.iterdir() if (kind := MEDIA_TYPES.get(PurePath(file.name).suffix))]
    return {
        file.name: Response(file.read_bytes(), headers=POLICIES.get(file.name), media_type=kind) for file, kind in kept
    }


class Application:
    """Routes requests that have passed the guard."""

    def __init__(self, host: Host, desk: PageDesk, actor: Actor, page: Mapping[str, Response]) -> None:
        self._host = host
        self._desk = desk
        self._actor = actor
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        parts = path_parts(scope)
        request = Request(scope, receive)
        try:
            if request.method == "POST":
                answer = await self._post(parts, request)
            elif request.method not in {"GET", "HEAD"}:
                answer = refusal(405, "method", "this can only be read, or posted to")
                answer.headers["allow"] = "GET, HEAD, POST"
            elif parts == ("api", "stream") and request.method == "GET":
                await self._stream(request, send)
                return
            else:
                answer = await self._get(parts, request.query_params, may_act=scope.get(MAY_ACT, False))
        except RefusedError as error:
            answer = error.answer
        await answer(scope, receive, send)

    async def _get(self, parts: tuple[str, ...], query: Mapping[str, str], *, may_act: bool) -> Response:
        match parts:
            case ("api", "runs"):
                return await self._runs(may_act=may_act)
            case ("api", "search"):
                return await self._search(query.get("q", ""), query.get("run", ""))
            case ("api", "runs", key):
                return _run(await self._desk.opened(key))
            case ("api", "runs", key, "report"):
                return await self._report(key)
            case ("api", "runs", key, "steps", step_id, "diff"):
                return await self._diff(key, step_id)
            case ("api", "runs", key, "steps", step_id):
                return await _step(await self._desk.opened(key), step_id, query)
            case (name,) if (file := self._page.get(name or "index.html")) is not None:
                return file
            case _:
                return refusal(404, "unknown", "there is nothing at this address")

    async def _post(self, parts: tuple[str, ...], request: Request) -> Response:
        match parts:
            case ("api", "requests", request_id):
                return await self._actor.answer(request_id, await _body(request))
            case ("api", "runs", key, "commands"):
                return await self._actor.command(key, await _body(request))
            case ("api", "runs", key, "steps", step_id, "comments"):
                return await self._actor.comment(key, step_id, await _body(request))
            case _:
                return refusal(404, "unknown", "there is nothing to post to at this address")

    async def _stream(self, request: Request, send: Send) -> None:
        query = request.query_params
        after = request.headers.get("last-event-id") or query.get("after", "")
        run, step, may_act = query.get("run", ""), query.get("step", ""), request.scope[MAY_ACT]
        await stream(self._desk, await self._desk.page(run, step, after, may_act=may_act), request.receive, send)

    async def _runs(self, *, may_act: bool) -> Response:
        desk = self._desk
        await desk.listed()
        rows, requests = desk.table.rows, desk.board.requests()
        return found({"version": VERSION, "control": may_act, "runs": rows, "requests": requests})

    async def _report(self, key: str) -> Response:
        """Return the report of a plan as a page without any rights."""
        await self._desk.run(key)
        home, environ = self._host.home, self._host.environ
        text = await _read(lambda: render(find_plan(home, key), ReportFormat.HTML, environ))
        policy = {"content-security-policy": REPORT_POLICY}
        return Response(text.encode("utf-8", "replace"), headers=policy, media_type=MEDIA_TYPES[".html"])

    async def _search(self, text: str, key: str) -> Response:
        """Return the places where runs contain a text, searching journals for the runs that aren't in memory."""
        wanted = text.strip().casefold()
        if not 1 <= len(wanted) <= MOST_WANTED:
            raise RefusedError(400, "invalid", f"give q, 1 to {MOST_WANTED} characters to look for")
        runs = [await self._desk.run(key)] if key else [*(await self._desk.listed()).values()]
        rows, views = self._desk.table.rows, self._desk.views
        hits = list(found_in_rows({run.key: rows[run.key] for run in runs if run.key in rows}, wanted))
        for run in runs:
            if run.key in views and len(hits) <= MOST_HITS:
                hits += islice(found_in_view(run.key, views[run.key], wanted), MOST_HITS + 1)
                await lowlevel.checkpoint()
        rest = [run for run in runs if run.key not in views]
        more, is_cut = await to_thread.run_sync(found_in_journals, rest, wanted)
        hits += more
        return found({"hits": hits[:MOST_HITS], "more": is_cut or len(hits) > MOST_HITS})

    async def _diff(self, key: str, step_id: str) -> Response:
        step = (await self._desk.opened(key)).step(step_id)
        if step.started_at is None:  # a plan that is only proposed has no folder
            return found({"base": "", "files": []})
        return found(await _read(lambda: net_changes(self._host, key, step_id, step.worktree)))


async def _read(read: Callable[[], T]) -> T:
    """Call ``read``, which reads files, in a thread.

    Raises:
        RefusedError: the files can't be read.
    """
    try:
        return await to_thread.run_sync(read)
    except (VibeError, OSError, subprocess.SubprocessError) as error:
        raise RefusedError(404, "unknown", " ".join(str(error).split())) from error


async def _body(request: Request) -> dict[str, Any]:
    """Return the posted body if the page may act.

    Raises:
        RefusedError: the page may not act, or the body isn't a JSON object.
    """
    if not request.scope[MAY_ACT]:
        raise RefusedError(403, "control", NO_CONTROL)
    return await read_json(request)


def _run(tables: RunTables) -> Response:
    table = tables.table
    kinds = {"steps": "step:", "requests": "request:", "answered": "answered:"}
    named = {name: table.under(beginning) for name, beginning in kinds.items()}
    notes = list(table.under("note:").values())
    return found({"head": table.get("head") or {}, **named, "notes": notes, "layout": table.get("layout") or {}})


async def _step(tables: RunTables, step_id: str, query: Mapping[str, str]) -> Response:
    """Return the step with the newest entries of its agents, or with those before a number."""
    if step_id or tables.follower.run.is_plan:
        tables.step(step_id)
    limit = min(_number(query.get("limit", ""), LIMIT), MOST_LIMIT)
    before = _number(query.get("before", ""), ENDLESS)
    table = tables.open_step(step_id)
    agents = table.under("agent:")
    entries = [
        {"agent": key.rpartition(":")[0], **row} for key, row in table.under("entry:").items() if row["n"] < before
    ]
    for agent_id, agent in agents.items() if before < ENDLESS else ():
        entries += await _older(tables, agent_id, range(max(before - limit, 1), min(before, agent["first"])))
    entries.sort(key=lambda entry: (entry["ts"], entry["n"]))
    return found({"step": tables.table.get(f"step:{step_id}") or {}, "agents": agents, "entries": entries[-limit:]})


async def _older(tables: RunTables, agent_id: str, numbers: range) -> list[dict[str, Any]]:
    """Return the rows of entries that are only in journals, as far as they can be read in time."""
    older: dict[int, EntryView] = {}
    with move_on_after(OLDER_SECONDS), suppress(IpcError):
        older = await tables.follower.older(agent_id, numbers) if numbers else {}
    return [{"agent": agent_id, **entry_row(older[number])} for number in sorted(older)]


def _number(given: str, default: int) -> int:
    """Return the positive number in a query, or ``default`` if it is missing.

    Raises:
        RefusedError: the value isn't a positive number.
    """
    if not given:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,14}", given):
        raise RefusedError(400, "invalid", f"{given[:40]!r} is not a number from 1")
    return int(given)


def key_of(name: str, host: Host) -> str:
    """Return the key of the run that a name, its beginning or ``latest`` means; the name itself if none. Blocks."""
    keys = [run.key for run in Runs(host.home, host.runtime_dir).look()]
    begun = keys[:1] if name == LATEST else [key for key in keys if key.startswith(name)]
    return begun[0] if len(begun) == 1 else name


async def serve(
    listener: socket, host: Host, tokens: Tokens, began: Callable[[], object], by: str = BY, hosts: Iterable[str] = ()
) -> None:
    """Serve the dashboard until cancelled. ``began`` is called once it answers.

    Pages act in the name of ``by``. ``hosts`` are further names of this host.
    """
    desk = PageDesk(Board(host.home, host.runtime_dir))
    application = Application(host, desk, Actor(desk, by), await to_thread.run_sync(page_files))
    guard = PageGuard(application, tokens, hosts)
    async with bare_task_group() as group:
        group.start_soon(desk.keep)
        group.start_soon(partial(loopback.serve, guard, listener, **SETTINGS))
        began()
        try:
            await sleep_forever()
        finally:
            desk.close()
