"""``vibe events``: list who publishes here, follow, watch or answer one of them, print the schema of events."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TextIO

import anyio
import msgspec

from ipc.errors import EventsLostError, IpcError, JournalError, UnknownSourceError
from ipc.registry import Entry, Registry
from vibe.cli.commands import events_answer
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.render.event_text import describe, one_line
from vibe.cli.streams import forgive, has_failed, waiting

if TYPE_CHECKING:
    from ipc.codec import EventRecord
    from ipc.subscriber import Subscription


TOKEN_VARIABLE = "VIBE_BUS_TOKEN"  # noqa: S105  the name of a variable
"""The token of a run on TCP that this home does not know."""
SCHEMA_FILE = "events.schema.json"
"""Written by scripts/gen-references."""
MOST_WAITING = 1_000_000
"""Bytes that wait for the reader before no more events are taken."""
READER_SECONDS = 0.05
"""A slow reader is checked that often."""


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Carry out ``vibe events ...`` and return its exit code."""
    code = int(ExitCode.DONE)
    try:
        if args.events_command == "list":
            _list(args.output, env)
        elif args.events_command == "answer":
            code = events_answer.run(args, env)
        elif args.events_command == "schema":
            env.stdout.write(_schema())
        elif args.events_command == "watch":
            code = _watch(args, env)
        else:
            code = _tail(args, env)
    except IpcError as error:
        env.stderr.write(f"vibe events: {error}\n")
        wrong_name = isinstance(error, UnknownSourceError | JournalError) and not isinstance(error, EventsLostError)
        return ExitCode.USAGE if wrong_name else ExitCode.ENVIRONMENT
    return code


def _schema() -> str:
    from importlib.resources import files  # noqa: PLC0415  not for those that follow a run

    return files("ipc").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def _list(output: str, env: CliEnvironment) -> None:
    entries = Registry(env.home, env.runtime_dir).running()
    if output == "json":
        env.stdout.write(msgspec.json.format(msgspec.json.encode([entry.public for entry in entries])).decode() + "\n")
        return
    if not entries:
        env.stdout.write("nothing is running\n")
    for entry in entries:
        env.stdout.write(_entry_line(entry) + "\n")


def _entry_line(entry: Entry) -> str:
    started = time.strftime("%H:%M:%S", time.localtime(entry.started))
    plan = f"  plan {entry.info.plan_id}" if entry.info.plan_id else ""
    place = f"{entry.events}  {entry.info.cwd}"
    return one_line(f"{entry.source}  pid {entry.pid}  since {started}{plan}  {place}  {entry.info.title}", 400)


def _watch(args: argparse.Namespace, env: CliEnvironment) -> int:
    if not env.stdout.isatty():
        env.stderr.write(
            "vibe events watch: stdout is not a terminal; for events as lines, run `vibe events tail --from 1`\n"
        )
        return ExitCode.USAGE
    from vibe.cli.terminal.watching import watch  # noqa: PLC0415  not for those that print lines

    return watch(_subscription(_source(args, env), 0, (), env), env)


def _subscription(
    source: str, after: int | Literal["now"], topics: tuple[str, ...], env: CliEnvironment
) -> Subscription:
    from ipc.subscriber import subscribe

    token = env.environ.get(TOKEN_VARIABLE, "")
    return subscribe(source, home=env.home, after=after, topics=topics, runtime_dir=env.runtime_dir, token=token)


def _source(args: argparse.Namespace, env: CliEnvironment) -> str:
    """The run that is meant, as ``subscribe`` takes it."""
    source: str = args.source or _only_source(env)
    return str(env.cwd / source) if _is_file(source, env) else source


def _tail(args: argparse.Namespace, env: CliEnvironment) -> int:
    source = _source(args, env)
    write = partial(_write_body if args.output == "json" else _write_line, env.stdout)
    after = "now" if args.first is None else args.first - 1
    # A journal without a publisher has no "now": all of it is wanted.
    if args.first is None and "/" in source and "://" not in source:
        after = 0
    return anyio.run(_follow, source, after, tuple(args.topic), write, env)


async def _follow(
    source: str, after: int | str, topics: tuple[str, ...], write: Callable[[EventRecord], None], env: CliEnvironment
) -> int:
    """Write every record until the publisher ends or a signal comes, and return the exit code.

    The signal cancels a scope rather than the loop's main task: a deadline that passes at the same moment can't take
    that for its own.
    """
    from ipc.subscriber import EndReason
    from vibe.cli.signals import handled_signals  # noqa: PLC0415  not for those that listen only

    subscription = _subscription(source, "now" if isinstance(after, str) else after, topics, env)
    scope = anyio.CancelScope()
    forgive(env.stdout)
    async with handled_signals(env.host, lambda _which, _count: scope.cancel()) as signals:
        with scope:
            await _write_all(subscription, write, env.stdout)
    if signals.exit_code is not None:
        return signals.exit_code
    if subscription.ended is not None:
        env.stderr.write(f"publisher {subscription.source or source}: {subscription.ended}\n")
    return ExitCode.FAILED if subscription.ended is EndReason.DIED else ExitCode.DONE


async def _write_all(subscription: Subscription, write: Callable[[EventRecord], None], stdout: TextIO) -> None:
    """Write every record, no faster than the reader takes them, until they or the reader end."""
    async with subscription as records:
        async for record in records:
            write(record)
            while waiting(stdout) > MOST_WAITING:  # noqa: ASYNC110  its reader is another process
                await anyio.sleep(READER_SECONDS)
            if has_failed(stdout):
                return


def _write_body(stdout: TextIO, record: EventRecord) -> None:
    stdout.write(record.body.decode("utf-8", "replace") + "\n")
    stdout.flush()


def _write_line(stdout: TextIO, record: EventRecord) -> None:
    event = record.event
    tag, _, _ = record.topic.partition("|")
    if event is None:
        stdout.write(f"{record.seq:>7}  {one_line(tag):<18} (of a newer version) {one_line(_text(record))}\n")
    else:
        clock = time.strftime("%H:%M:%S", time.localtime(event.ts))
        step = f"[{one_line(event.subagent_step_id)}] " if event.subagent_step_id else ""
        stdout.write(f"{record.seq:>7}  {clock}  {tag:<18} {step}{describe(event)}\n")
    stdout.flush()


def _text(record: EventRecord) -> str:
    return record.body.decode("utf-8", "replace")


def _only_source(env: CliEnvironment) -> str:
    running = [entry.source for entry in Registry(env.home, env.runtime_dir).running()]
    if len(running) != 1:
        raise UnknownSourceError(
            "no SOURCE",
            f"was given and {'several runs are publishing' if running else 'no run is publishing'}",
            running,
        )
    return running[0]


def _is_file(source: str, env: CliEnvironment) -> bool:
    return "://" not in source and (env.cwd / source).is_file()
