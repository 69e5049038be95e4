"""Runs of ``vibe plan new`` and ``vibe plan edit --ask``, in which a model plans until it is done or a signal comes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio import CancelScope
from msgspec.structs import replace

from ipc.events import ToolCallEvent, WarningEvent
from ipc.sink import EventSink
from planner.plan.loader import LoadedPlan
from planner.store.folder import PlanFolder, find_plan
from vibe.app.conversation.mentions import outputs_of, with_piped
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan.author import PlanningRequest, planning
from vibe.app.plan.commands import Done, revise
from vibe.app.plan.drafting import PlanDraft, ProposedChange
from vibe.cli.commands.plan_control import write_done
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.signals import handled_signals
from vibe.core.outcome import Outcome
from vibe.core.tools.questions import UserInput
from vibe.front.event_text import one_line
from vibe.front.output import TROUBLE, EventLines, line_of


async def new_plan(
    request: PlanningRequest,
    base: LoadedPlan | None,
    host: Host,
    listeners: Sequence[EventSink],
    user_input: UserInput | None,
) -> tuple[RunRecord, PlanDraft | None]:
    """Have a plan written for a goal, or one changed as a sentence says; None: there is none. A signal ends that.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``planning``.
    """
    scope = CancelScope()
    async with (
        handled_signals(host, lambda _which, _count: scope.cancel()) as signals,
        planning(request, host, listeners, user_input) as run,
    ):
        draft = run.draft(request.subject)
        outputs = outputs_of(host.home, run.session_id)
        draft.piped = await anyio.to_thread.run_sync(with_piped, "", request.piped, outputs)
        draft.context = replace(run.context, workspace=run.context.workspace.granting([outputs], write=False))
        with scope:
            await _write(draft, base, request.subject + draft.piped)
        record = run.end(draft.acted, draft.versions[-1].repairs if draft.versions else (), signals.exit_code)
    return record, draft if record.outcome is Outcome.COMPLETED else None


async def _write(draft: PlanDraft, base: LoadedPlan | None, sentence: str) -> None:
    if base is None:
        await draft.write()
    else:
        await draft.replace(base)
        await draft.revise(sentence)


async def proposed(
    request: PlanningRequest, folder: PlanFolder, host: Host, listeners: Sequence[EventSink]
) -> tuple[RunRecord, ProposedChange | None]:
    """Have a change proposed; None: there is none, and the record says why. A signal ends that.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``planning`` and ``propose_change``.
    """
    scope = CancelScope()
    change: ProposedChange | None = None
    async with (
        handled_signals(host, lambda _which, _count: scope.cancel()) as signals,
        planning(request, host, listeners) as run,
    ):
        with scope:
            change = await run.propose_change(folder, request.subject)
        record = run.end(change.acted if change else None, (), signals.exit_code)
    return record, change if record.outcome is Outcome.COMPLETED else None


LINE_LENGTH = 2_000

YES = frozenset({"y", "yes"})


def run(args: Arguments, env: CliEnvironment) -> int:
    """Have the change proposed, show it, and carry it out after a yes."""
    asks = args.output == "text" and env.stdin.isatty() and env.stderr.isatty()
    if not (asks or args.yes):
        raise CommandLineError("--ask: no one can confirm the change: add --yes, or run it at a terminal")
    folder = find_plan(env.home, args.plan)
    request = PlanningRequest(
        subject=args.ask, workdir=Path(folder.settings().workspace), trust=args.trust, wanted_by="vibe plan edit --ask"
    )
    trouble = (WarningEvent,) if args.output == "text" else TROUBLE
    listener = EventLines(env.stderr, partial(line_of, (*trouble, ToolCallEvent) if asks else trouble))
    record, change = anyio.run(proposed, request, folder, env, [listener])
    if change is None:
        env.stderr.write(
            f"vibe: no change: {one_line(record.detail or record.reason or 'no reason given', LINE_LENGTH)}\n"
        )
        return record.exit_code
    if not change.operations:
        why = one_line(change.reason or "the plan already says so", LINE_LENGTH)
        write_done(Done(plan_id=folder.plan_id, message=f"nothing to change: {why}", running=False), args, env)
        return ExitCode.DONE
    lines = _lines(change)
    if asks and not args.yes:
        env.stderr.write("\n".join(lines) + "\n")
        if not _says_yes(env):
            env.stderr.write(f"vibe: plan {folder.plan_id} was not changed\n")
            return ExitCode.BLOCKED
    done = anyio.run(partial(revise, env, args.plan, change.operations, args.reason or args.ask, trust=args.trust))
    write_done(done, args, env, lines if args.yes else ())
    return ExitCode.DONE


def _lines(change: ProposedChange) -> list[str]:
    """The change, and the commands that it brings, which a person should read."""
    lines = [f"  {one_line(line, LINE_LENGTH)}" for line in change.diff]
    if change.commands:
        lines += ["It would run:"]
        lines += [
            f"  {one.step_id}{' (check)' if one.check else ''}: {one_line(one.line, LINE_LENGTH)}"
            for one in change.commands
        ]
    return [*lines, f"because: {one_line(change.reason, LINE_LENGTH)}"] if change.reason else lines


def _says_yes(env: CliEnvironment) -> bool:
    env.stderr.write("Apply this change? [y/N] ")
    env.stderr.flush()
    return env.stdin.readline().strip().lower() in YES
