"""``vibe events``: lists, follows, watches and answers runs, and prints the schema of events."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import anyio
import msgspec

from ipc.commands import AnswerQuestion, Approve, Decide, Requests, RunCommand
from ipc.errors import JournalError, UnknownSourceError
from ipc.registry import Entry, Registry
from ipc.subscriber import After, EndReason, Subscription, subscribe
from vibe.app.watch.commands import CommandOutcome, send_to
from vibe.cli.environment import BUS_TOKEN, Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.signals import cancelled_by_signals
from vibe.cli.streams import FULL, READER_SECONDS, forgive, has_failed, waiting
from vibe.front.event_text import describe, step_of
from vibe.front.request_text import ANSWERS, AnswerWord, answer_for, possible_answers
from vibe.system.errors import EnvironmentFailure, UsageError, error_as
from vibe.system.plain_text import counted, date_text, one_line

if TYPE_CHECKING:
    from ipc.codec import EventRecord
    from vibe.app.telemetry import Telemetry


SCHEMA_FILE = "events.schema.json"
"""This file is written by scripts/gen-references."""


def run(args: Arguments, env: CliEnvironment) -> int | None:
    """Carry out a ``vibe events`` command and return its exit code."""
    served = {"list": _list, "answer": answer, "schema": _schema, "watch": _watch, "tail": _tail, "export": _export}
    with error_as(JournalError, lambda error: UsageError(str(error))):  # here it was named by the user
        return served[args.subcommand](args, env)


def _schema(_args: Arguments, env: CliEnvironment) -> None:
    from importlib.resources import files  # noqa: PLC0415  following a run doesn't need it

    env.stdout.write(files("ipc").joinpath(SCHEMA_FILE).read_text(encoding="utf-8"))


def _list(args: Arguments, env: CliEnvironment) -> None:
    entries = Registry(env.home, env.runtime_dir).running()
    document = msgspec.to_builtins([entry.public for entry in entries])
    env.answer(args, document, map(_entry_line, entries) if entries else ["nothing is running"])


def _entry_line(entry: Entry) -> str:
    started = date_text(entry.started, "%H:%M:%S")
    plan = f"  plan {entry.info.plan_id}" if entry.info.plan_id else ""
    place = f"{entry.events}  {entry.info.cwd}"
    return one_line(f"{entry.source}  pid {entry.pid}  since {started}{plan}  {place}  {entry.info.title}", 400)


def _watch(args: Arguments, env: CliEnvironment) -> int:
    if not env.stdout.isatty():
        raise CommandLineError("stdout is not a terminal; for events as lines, run `vibe events tail --from 1`")
    from vibe.cli.terminal.watching import watch  # noqa: PLC0415  printing lines doesn't need it

    return watch(_subscription(_source(args, env), 0, (), env), env)


def _subscription(source: str, after: After, topics: tuple[str, ...], env: CliEnvironment) -> Subscription:
    token = env.environ.get(BUS_TOKEN, "")
    return subscribe(source, home=env.home, after=after, topics=topics, runtime_dir=env.runtime_dir, token=token)


def _source(args: Arguments, env: CliEnvironment) -> str:
    """Return the run meant by the arguments, in the form that ``subscribe`` takes."""
    source: str = args.source or _only_source(env)
    path = env.path(source)
    return str(path) if "://" not in source and os.path.isfile(path) else source


def _tail(args: Arguments, env: CliEnvironment) -> int:
    source = _source(args, env)
    words = _text if args.output == "json" else _line
    # A journal without a publisher has no "now", so print all of it.
    usual: After = 0 if "/" in source and "://" not in source else "now"
    return anyio.run(_follow, source, usual if args.first is None else args.first - 1, tuple(args.topic), words, env)


async def _follow(
    source: str, after: After, topics: tuple[str, ...], words: Callable[[EventRecord], str], env: CliEnvironment
) -> int:
    """Write every record until the publisher ends or a signal arrives, and return the exit code.

    A signal cancels a scope rather than the event loop's main task, so that a deadline that passes at the same moment
    can't mistake the cancellation for its own.
    """
    subscription = _subscription(source, after, topics, env)
    forgive(env.stdout)
    async with cancelled_by_signals(env) as signals:
        await _write_all(subscription, words, env.stdout)
    if signals.exit_code is not None:
        return signals.exit_code
    if subscription.ended is not None:
        env.stderr.write(f"publisher {subscription.source or source}: {subscription.ended}\n")
    return ExitCode.FAILED if subscription.ended is EndReason.DIED else ExitCode.DONE


async def _write_all(subscription: Subscription, words: Callable[[EventRecord], str], stdout: TextIO) -> None:
    """Write every record, no faster than the reader takes them, until the records or the reader end."""
    async with subscription as records:
        async for record in records:
            stdout.write(f"{words(record)}\n")
            stdout.flush()
            while waiting(stdout) > FULL:  # noqa: ASYNC110  its reader is another process
                await anyio.sleep(READER_SECONDS)
            if has_failed(stdout):
                return


def _export(args: Arguments, env: CliEnvironment) -> None:
    from vibe.app.telemetry import Telemetry, headers_in, run_before  # noqa: PLC0415  following a run doesn't need it

    before = partial(run_before, Registry(env.home, env.runtime_dir))
    telemetry = Telemetry(args.otlp, headers_in(env.environ), content=args.content, is_export=True, before=before)
    with closing(telemetry):  # sends what was read, even of a journal that has lost events
        sent = anyio.run(_publish_all, _subscription(_source(args, env), 0, (), env), telemetry)
    env.answer(args, {"events": sent, "otlp": args.otlp}, [f"{counted(sent, 'event')} sent to {args.otlp}"])


async def _publish_all(subscription: Subscription, telemetry: Telemetry) -> int:
    """Pass every event of a run to telemetry and return their number."""
    async with subscription as records:
        return await records.pass_on(telemetry.publish)


def _line(record: EventRecord) -> str:
    event = record.event
    tag, _, _ = record.topic.partition("|")
    if event is None:
        return f"{record.seq:>7}  {one_line(tag):<18} (of a newer version) {one_line(_text(record))}"
    clock = date_text(event.ts, "%H:%M:%S")
    return f"{record.seq:>7}  {clock}  {tag:<18} {step_of(event)}{describe(event)}"


def _text(record: EventRecord) -> str:
    return record.body.decode("utf-8", "replace")


def _only_source(env: CliEnvironment) -> str:
    running = [entry.source for entry in Registry(env.home, env.runtime_dir).running()]
    if len(running) != 1:
        what = "several runs are" if running else "no run is"
        raise UnknownSourceError("no SOURCE", f"was given and {what} publishing", running)
    return running[0]


# --- answering

MESSAGE_LENGTH = 2_000
SHOWN_ID = 8
SHORTEST = 4
"""The fewest characters of a request's id that may stand for it."""
RATHER_NOT = "-"
"""The answer of a person who declines to answer."""


def answer(args: Arguments, env: CliEnvironment) -> None:
    """List the open requests, or answer one.

    Raises:
        UsageError: the answer is invalid, or the run refused it.
        EnvironmentFailure, IpcError: there is no such run, or it did not reply.
    """
    anyio.run(_list_or_answer, args, env)


async def _list_or_answer(args: Arguments, env: CliEnvironment) -> None:
    registry = Registry(env.home, env.runtime_dir)
    entry = await anyio.to_thread.run_sync(registry.running_as, args.source)
    requests: list[dict[str, Any]] = (await _asked(entry, Requests())).data["requests"]
    if args.request is None:
        env.answer(args, {"source": entry.source, "requests": requests}, _table(entry, requests))
        return
    command = _command(args, requests)
    reply = await _asked(entry, command)
    document = {"source": entry.source, "message": reply.message, **reply.data}
    env.answer(args, document, [one_line(reply.message, MESSAGE_LENGTH)])


async def _asked(entry: Entry, command: RunCommand) -> CommandOutcome:
    outcome = await send_to(entry, command)
    if outcome.state == "late":
        raise EnvironmentFailure(outcome.message)
    if outcome.state != "done":
        raise UsageError(f"run {entry.source}: {outcome.message}")
    return outcome


def _command(args: Arguments, requests: Sequence[Mapping[str, Any]]) -> RunCommand:
    """Return the command that gives the answer.

    A request that isn't open is left to the run, which knows the closed ones.

    Raises:
        UsageError: it is no valid answer to that request.
    """
    words: list[str] = args.answer
    if not words:
        raise CommandLineError(f"an answer to {args.request} is missing; `vibe events answer {args.source}` lists them")
    wanted: str = args.request
    exact = [each for each in requests if each["request_id"] == wanted]
    begun = [each for each in requests if len(wanted) >= SHORTEST and each["request_id"].startswith(wanted)]
    request = (exact or begun)[0] if len(exact or begun) == 1 else None
    kind = request["kind"] if request else None
    word = words[0].casefold() if len(words) == 1 else ""
    answer = answer_for(word)
    if kind == "approval" or (request is None and answer is not None and not word.isdecimal()):
        if answer is None:
            raise UsageError(f"{' '.join(words)!r} is not an answer to a call: give {_told(ANSWERS)}")
        allow, scope = answer.scope is not None, answer.scope or "once"
        return Approve(request_id=args.request, allow=allow, reason=args.reason, scope=scope, by=args.by)
    if args.reason:
        raise CommandLineError("--reason goes with yes or no to a call: leave it out")
    if request is None:
        own_words = () if words == [RATHER_NOT] else (tuple(words),)
        return AnswerQuestion(request_id=args.request, answers=own_words, by=args.by)
    if kind == "decision":
        options: list[str] = request["options"]
        chosen = _chosen(words, request, options, request["labels"] or options)
        return Decide(decision_id=request["request_id"], selections=tuple(chosen), by=args.by)
    return AnswerQuestion(request_id=request["request_id"], answers=_answers(words, request["questions"]), by=args.by)


def _answers(words: Sequence[str], questions: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
    """Return the answer to each question."""
    if list(words) == [RATHER_NOT]:
        return ()
    given = [" ".join(words)] if len(questions) == 1 else words
    if len(given) != len(questions):
        raise UsageError(f"give one answer per question: {len(questions)} expected, {len(given)} given")
    return tuple(_answer(text, question) for text, question in zip(given, questions, strict=True))


def _answer(text: str, question: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels that the text names, or else the text itself."""
    labels = [option["label"] for option in question["options"]]
    picked = _chosen([text], question, labels, labels)
    return tuple(picked) if picked and all(part in labels for part in picked) else (text,)


def _chosen(words: Sequence[str], asked: Mapping[str, Any], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the options that the words mean: each one, or several between commas unless that is one option's label."""
    parts = [part for each in words for part in ([each] if each in labels else each.split(","))]
    whole = parts if asked["multi_select"] else [" ".join(words)]
    return [_picked(part.strip(), names, labels) for part in whole if part.strip()]


def _picked(given: str, names: Sequence[str], labels: Sequence[str]) -> str:
    """Return the option meant by a name, a label or a number from 1; else the text as given."""
    if given in names:
        return given
    for number, (name, label) in enumerate(zip(names, labels, strict=False), start=1):
        if given.casefold() in {name.casefold(), label.casefold(), str(number)}:
            return name
    return given


def _table(entry: Entry, requests: Sequence[Mapping[str, Any]]) -> list[str]:
    if not requests:
        return ["no request is open"]
    rows = [("REQUEST", "KIND", "STEP", "ASKED"), *map(_row, requests)]
    ids, kinds, steps = (max(len(row[column]) for row in rows) for column in range(3))
    lines = [f"{known:<{ids}}  {kind:<{kinds}}  {step:<{steps}}  {asked}".rstrip() for known, kind, step, asked in rows]
    return [*lines, f"answer with: vibe events answer {entry.source[:SHOWN_ID]} REQUEST ANSWER"]


def _row(request: Mapping[str, Any]) -> tuple[str, str, str, str]:
    kind = request["kind"]
    shown = request["request_id"] if kind == "decision" else request["request_id"][:SHOWN_ID]
    labels = ", ".join(f"{number} {label}" for number, label in enumerate(request.get("labels", ()), start=1))
    asked = f"{request['summary']} ({_possible(request)})" + f": {labels}" * bool(labels)
    return one_line(shown), kind, one_line(request["step_id"] or "-"), one_line(asked, 400)


def _told(answers: Sequence[AnswerWord]) -> str:
    """Return the answers with their keys in one line."""
    *others, last = (f"{each.key} {each.word}" for each in answers)
    return f"{', '.join(others)} or {last}"


def _possible(request: Mapping[str, Any]) -> str:
    """Return the possible answers in one line."""
    if request["kind"] == "approval":
        return _told(possible_answers(covers=bool(request["covers"]), edits=bool(request["edits"])))
    if request["kind"] == "decision":
        several = ", several" if request["multi_select"] else ""
        return " | ".join(request["options"]) + several
    labels = [" | ".join(option["label"] for option in question["options"]) for question in request["questions"]]
    return f"{' / '.join(labels)}, or your own words"
