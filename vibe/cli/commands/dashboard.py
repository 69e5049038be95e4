"""``vibe dashboard``: shows every run on this machine, on a screen or page, or as lines or JSON."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio

from vibe.cli.commands.prompt import draws
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.signals import cancelled_by_signals, served_until_signal
from vibe.cli.streams import forgive, has_failed
from vibe.front.run_list import Row, asked_text, list_lines
from vibe.system.loopback import listening
from vibe.system.plain_text import one_line
from vibe.system.programs import open_browser

if TYPE_CHECKING:
    from vibe.app.watch.board import Board

VERSION = 1
"""The version of the JSON output."""
TICK_S = 0.2
"""Seconds between two checks for changes."""
EARLIER_SHOWN = 20
LEAST_COLUMNS = 100
FLICKERING = frozenset({"doing", "tokens", "cost_usd", "progress_at", "waited_s", "same_failure", "checks", "counts"})
"""Fields of a run that change too often to be reported to people by themselves."""

HOST = "127.0.0.1"
"""The page is served to this machine only."""
TOKEN_BYTES = 32
HOST_NAME = re.compile(r"[\w.-]+|\[[0-9a-fA-F:.]+\]")

Tables = Mapping[str, Mapping[str, Row]]


def run(args: Arguments, env: CliEnvironment) -> int:
    """Show the runs and return the exit code."""
    if args.web:
        if args.follow or args.plain:
            raise CommandLineError("--web shows a page: leave out --follow and --plain")
        return _web(args, env)
    if args.follow:
        return anyio.run(_follow, args, env)
    if not args.plain and args.output == "text" and draws(env) and env.stdin.isatty() and env.stdout.isatty():
        from vibe.cli.textual_ui.runs_hold import show_runs  # noqa: PLC0415  costs what lines do without

        return show_runs(env)
    tables = anyio.run(_once, env)
    columns = max(LEAST_COLUMNS, shutil.get_terminal_size().columns)
    lines = list_lines(tables["runs"], tables["requests"], time.time(), columns, EARLIER_SHOWN)
    env.answer(args, {"version": VERSION, "control": False, **tables}, lines)
    return ExitCode.DONE


async def _once(env: CliEnvironment) -> Tables:
    board = _board(env)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(board.keep)
        await board.ready.wait()
        tasks.cancel_scope.cancel()
    return _tables(board)


def _board(env: CliEnvironment) -> Board:
    from vibe.app.watch.board import Board  # noqa: PLC0415  the screen is drawn before it is loaded

    return Board(env.home, env.runtime_dir)


def _tables(board: Board) -> Tables:
    return {"runs": board.rows(), "requests": board.requests()}


async def _follow(args: Arguments, env: CliEnvironment) -> int:
    """Write a line for each change until a signal arrives or the reader is gone, starting with the list as it is."""
    board = _board(env)
    forgive(env.stdout)
    words = _json_line if args.output == "json" else _text_line
    before: Tables = {"runs": {}, "requests": {}}
    async with cancelled_by_signals(env) as signals, anyio.create_task_group() as tasks:
        tasks.start_soon(board.keep)
        await board.ready.wait()
        while not has_failed(env.stdout):
            if board.take_changed():
                tables = _tables(board)
                env.write_lines(line for change in _changes(before, tables) if (line := words(*change)))
                before = tables
            await anyio.sleep(TICK_S)
        tasks.cancel_scope.cancel()
    return signals.exit_code or ExitCode.DONE


def _changes(before: Tables, now: Tables) -> Iterator[tuple[str, str, Row | None, Row | None]]:
    """Yield what changed: the table, the id, and the row before and now (None if there is no such row)."""
    for table, rows in now.items():
        known = before[table]
        yield from ((table, key, known[key], None) for key in known if key not in rows)
        yield from ((table, key, known.get(key), row) for key, row in rows.items() if known.get(key) != row)


def _json_line(table: str, key: str, _: Row | None, row: Row | None) -> str:
    return json.dumps({"table": table, "id": key, "row": row}, ensure_ascii=False)


def _text_line(table: str, key: str, before: Row | None, row: Row | None) -> str:
    """Return a change in words, or ``""`` if people need not know it."""
    now = time.strftime("%H:%M:%S")
    if table == "requests":
        asked = row or before or {}
        verb = "asks" if row is not None else "no longer asks"
        step = f"{asked['step']}: " if asked.get("step") else ""
        return f"{now}  {one_line(asked['run'])}  {verb}  {one_line(step)}{asked_text(asked)}"
    if row is None:
        return f"{now}  {one_line(key)}  is gone"
    if (before is None and not row.get("live")) or (before is not None and _steady(before) == _steady(row)):
        return ""
    steps = f"  {row.get('done', 0)}/{row['total']}" if row.get("total") else ""
    return f"{now}  {one_line(key)}  {row.get('status', '')}{steps}  {one_line(row['title'], 80)}"


def _steady(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in FLICKERING}


def _web(args: Arguments, env: CliEnvironment) -> int:
    """Serve the page; its address and token are printed first. Ending by Ctrl-C or SIGTERM counts as success."""
    from vibe.dashboard.acting import BY  # noqa: PLC0415  as below
    from vibe.dashboard.server import Tokens, key_of, serve  # noqa: PLC0415  only the page needs it

    for name in args.allow_host:
        if not HOST_NAME.fullmatch(name):
            raise CommandLineError(f"--allow-host takes the name alone, such as laptop.example.net, not {name!r}")
    token, view = secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
    tokens = Tokens(view=view, control=token) if args.control else Tokens(view=token)
    with listening(HOST, args.port, "--port") as listener:
        at = f"?run={quote(key_of(args.run, env), safe='')}" if args.run else ""
        address = f"http://{HOST}:{listener.getsockname()[1]}/{at}"
        links = {"url": f"{address}#{token}", "token": token, "pid": os.getpid(), "view_url": f"{address}#{view}"}
        began = partial(_tell, links, args, env)
        page = partial(serve, listener, env, tokens, began, args.name or BY, args.allow_host)
        return anyio.run(served_until_signal, env, page)


def _tell(links: Mapping[str, Any], args: Arguments, env: CliEnvironment) -> None:
    """Print the address of the page (``view_url`` only lets you look), and open it if that is wanted."""
    look = [f"only to look: {links['view_url']}"] if args.control else []
    env.write_lines([json.dumps(links)] if args.output == "json" else [links["url"], *look, "Ctrl-C ends it"])
    if args.open:
        Thread(target=open_browser, args=(links["url"], env.environ), daemon=True).start()
