"""``vibe plan new GOAL`` and ``vibe plan edit --ask``: let a model write a plan or a change, without running it."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import CancelScope, to_thread
from msgspec.structs import replace

from ipc.events import Event, ToolCallEvent, ToolResultEvent, WarningEvent
from ipc.sink import EventSink
from planner.author.planner_agent import ProposedChange
from planner.author.structured_output import PLAN_TOOL
from planner.plan.loader import LoadedPlan, read_plan_file
from planner.store.folder import PlanFolder, find_plan
from vibe.app.conversation.mentions import outputs_of, with_piped
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan.author import Planning, PlanningRequest, planning
from vibe.app.plan.command_consent import model_commands
from vibe.app.plan.commands import CommandReport, revise
from vibe.app.plan.drafting import PlanDraft, propose_change
from vibe.cli.commands.plan_control import write_command_report
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.piped import read_all, read_context
from vibe.cli.signals import handled_signals
from vibe.cli.streams import forgive
from vibe.core.messages import Outcome
from vibe.core.tools.questions import UserInput
from vibe.front.output import TROUBLE, EventLines, line_of
from vibe.front.plan_graph import plan_text
from vibe.front.request_text import command_line
from vibe.system.files import is_open, put_new_file
from vibe.system.plain_text import counted, one_line, plain
from vibe.system.redaction import Mask

Planned = TypeVar("Planned", PlanDraft, ProposedChange)

REASON_LENGTH = 1_000
NOTE_LENGTH = 400


def run_new(args: Arguments, env: CliEnvironment) -> int:
    """Write the plan to a file or to stdout, and return the exit code of the record."""
    target = _target(args.to, env)
    base = None if args.base is None else read_plan_file(env.path(args.base))
    sentence, piped, note = _goal(args.goal, env)
    request = PlanningRequest(
        subject=sentence, piped=piped, notes=(note,) if note else (), **args.named_in(PlanningRequest)
    )
    forgive(env.stdout)
    watched = args.output == "text" and env.stderr.isatty()  # it takes minutes, so show progress
    listeners = [_listener(args, env, watched=watched)]
    listeners += [EventLines(env.stderr, _refusal)] if args.output == "text" else []
    write, person = partial(_written, base, request, env.home), _person(args.output, env)
    record, draft = anyio.run(_planned, request, env, listeners, write, person)
    unsaved: OSError | None = None
    try:
        if draft is not None and target is not None:
            put_new_file(target, draft.loaded.source_bytes)
    except OSError as error:
        unsaved = error
    file = None if unsaved else target
    if args.output == "json":
        plan = json.loads(draft.loaded.source_bytes) if draft else None
        named, notes = str(file) if file and draft else None, list(draft.notes) if draft else []
        env.write_json({**record.as_document(), "plan": plan, "file": named, "notes": notes})
    elif draft is None:
        env.stderr.write(f"vibe: no plan: {one_line(record.why, REASON_LENGTH)}\n{_spent(record)}\n")
    else:
        _write_text(record, draft, file, env)
    if unsaved is not None:
        env.stderr.write(f"vibe: {target} can't be written ({unsaved.strerror}); the plan is on standard output\n")
        return ExitCode.ENVIRONMENT
    return record.exit_code


def _refusal(event: Event) -> str:
    """Return why a plan that the model handed in was sent back, or ``""`` for any other event."""
    if isinstance(event, ToolResultEvent) and event.tool == PLAN_TOOL and event.status == "error":
        return f"plan rejected: {one_line(event.content, REASON_LENGTH)}\n"
    return ""


def _goal(words: list[str], env: CliEnvironment) -> tuple[str, bytes, str]:
    """Return the goal, what standard input adds to it, and what the user should know about that."""
    goal = " ".join(word for word in words if word != "-").strip()
    piped, note = read_context(env, waits="-" in words) if goal else (b"", "")
    if words == ["-"]:
        goal = read_all(env).decode("utf-8-sig", "replace").strip()
    if not goal:
        raise CommandLineError("the goal is empty: say what the plan must achieve")
    return goal, piped, note


def _target(name: str | None, env: CliEnvironment) -> Path | None:
    """Return the file for the plan, checked before anything is spent on it; None for standard output."""
    if name is None or name == "-":
        return None
    path = env.file_to_write("-o", name)
    if os.path.lexists(path):
        raise CommandLineError(f"-o {name}: already exists; delete it or choose another name")
    if not is_open(path.parent, os.W_OK | os.X_OK):
        raise CommandLineError(f"-o {name}: no file can be created in {str(path.parent)!r}; choose another folder")
    return path


def _person(output: str, env: CliEnvironment) -> UserInput | None:
    """Return the person who answers the planner's questions, if both stdin and stdout are a terminal."""
    if output != "text" or not (env.stdout.isatty() and env.stdin.isatty()):
        return None
    from vibe.cli.terminal.person import asking

    return asking(env)[1].answer


def _write_text(record: RunRecord, draft: PlanDraft, file: Path | None, env: CliEnvironment) -> None:
    about = [*(f"note: {one_line(note, NOTE_LENGTH)}" for note in draft.notes), _spent(record)]
    if file is None:
        text = draft.loaded.source_bytes.decode()
        env.stdout.write(plain(text) if env.stdout.isatty() else text)
    else:
        env.write_lines(_picture(draft.loaded, file))
    env.stderr.write("\n".join(about) + "\n")


def _picture(loaded: LoadedPlan, target: Path) -> list[str]:
    """Return the plan's steps, and the commands they would run, which a person should read first."""
    lines = [plan_text(loaded.plan)]
    commands = model_commands(loaded.plan)
    if commands:
        lines += ["", "Commands it would run:", *map(command_line, commands)]
    name = one_line(str(target), NOTE_LENGTH)
    return [*lines, "", f"written to {name}; run it with: vibe plan run {name}"]


def _spent(record: RunRecord) -> str:
    cost = "at an unknown price" if record.cost_usd is None else f"${record.cost_usd:.4f}"
    return f"planning took {record.usage.total_tokens:,} tokens in {counted(record.usage.calls, 'call')}, {cost}"


async def _planned(
    request: PlanningRequest,
    host: Host,
    listeners: Sequence[EventSink],
    plan: Callable[[Planning], Awaitable[Planned]],
    user_input: UserInput | None = None,
) -> tuple[RunRecord, Planned | None]:
    """Have a model plan until it is done or a signal arrives; without a result the record says why.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as for ``planning`` and ``plan``.
    """
    scope = CancelScope()
    found: Planned | None = None
    async with (
        handled_signals(host, lambda _which, _count: scope.cancel()) as signals,
        planning(request, host, listeners, user_input) as run,
    ):
        with scope:
            found = await plan(run)
        record = run.end(found, signals.exit_code)
    return record, found if record.outcome is Outcome.COMPLETED else None


async def _written(base: LoadedPlan | None, request: PlanningRequest, home: Path, run: Planning) -> PlanDraft:
    """Have a plan written for a goal, or have ``base`` changed as the request says."""
    draft = run.draft(request.subject)
    outputs = outputs_of(home, run.channel.session_id)
    draft.piped = await to_thread.run_sync(with_piped, "", request.piped, outputs, Mask(run.context.environ).printed)
    draft.context = replace(run.context, workspace=run.context.workspace.granting([outputs], write=False))
    if base is None:
        await draft.write()
    else:
        await draft.replace(base)
        await draft.revise(request.subject + draft.piped)
    return draft


async def _proposed(folder: PlanFolder, sentence: str, run: Planning) -> ProposedChange:
    return await propose_change(folder, sentence, run.context, run.limits)


def _listener(args: Arguments, env: CliEnvironment, *, watched: bool) -> EventLines:
    """Return a listener that reports planning on standard error; text output leaves errors to a final sentence."""
    trouble = (WarningEvent,) if args.output == "text" else TROUBLE
    return EventLines(env.stderr, partial(line_of, (*trouble, ToolCallEvent) if watched else trouble))


CHANGE_LENGTH = 2_000
YES = frozenset({"y", "yes"})


def run_ask(args: Arguments, env: CliEnvironment) -> int:
    """Have the change proposed, show it, and apply it once confirmed."""
    asks = args.output == "text" and env.stdin.isatty() and env.stderr.isatty()
    if not (asks or args.yes):
        raise CommandLineError("--ask: no one can confirm the change: add --yes, or run it at a terminal")
    folder = find_plan(env.home, args.plan)
    request = PlanningRequest(
        subject=args.ask, workdir=Path(folder.settings().workspace), trust=args.trust, wanted_by="vibe plan edit --ask"
    )
    listener = _listener(args, env, watched=asks)
    record, change = anyio.run(_planned, request, env, [listener], partial(_proposed, folder, request.subject))
    if change is None:
        env.tell(f"vibe: no change: {one_line(record.why, CHANGE_LENGTH)}\n{_spent(record)}")
        return record.exit_code
    if not change.operations:
        why = one_line(change.reason or "the plan already says so", CHANGE_LENGTH)
        same = CommandReport(plan_id=folder.plan_id, message=f"nothing to change: {why}", running=False)
        write_command_report(same, args, env)
        return ExitCode.DONE
    lines = _change_lines(change)
    if asks and not args.yes:
        env.stderr.write("\n".join(lines) + "\n")
        if env.ask("Apply this change? [y/N] ").strip().lower() not in YES:
            env.stderr.write(f"vibe: plan {folder.plan_id} was not changed\n")
            return ExitCode.BLOCKED
    done = anyio.run(partial(revise, env, args.plan, change.operations, args.reason or args.ask, trust=args.trust))
    write_command_report(done, args, env, lines if args.yes else ())
    return ExitCode.DONE


def _change_lines(change: ProposedChange) -> list[str]:
    """Return the change, and the commands it adds, which a person should read."""
    lines = [f"  {one_line(line, CHANGE_LENGTH)}" for line in change.diff]
    if change.commands:
        lines += ["It would run:", *map(command_line, change.commands)]
    return [*lines, f"because: {one_line(change.reason, CHANGE_LENGTH)}"] if change.reason else lines
