"""``/plan``: a plan in the conversation. ``/skip``, ``/retry``, ``/cancel`` and ``/pause`` are short forms."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType

from anyio import to_thread
from msgspec import Struct

from ipc.commands import Act, Cancel, Decide, Pause, Revise, StepAction
from planner.plan.loader import load_plan, read_plan_file
from planner.plan.operations import plain_operations
from planner.plan.revision import operations_between
from planner.plan.status import StepStatus
from planner.store.current_plan import current_state, effective_plan
from planner.store.folder import PlanFolder, PlanSummary, find_plan, plans_in
from vibe.app.plan.commands import give, revise
from vibe.app.plan.library import quickstart_file
from vibe.app.plan.report import ReportFormat, render, write_report
from vibe.front.cells import Line
from vibe.front.picker import Picker, PickRow, wrapped
from vibe.front.plan_graph import plan_text
from vibe.front.plan_listing import LOOKED_AT, PlanRead, plan_line, plans_that_ran
from vibe.front.slash.command import Talk, TypedCommand
from vibe.front.slash.plan_proposal import go_on, kept_if_wrong, propose, save
from vibe.system.errors import UsageError
from vibe.system.files import typed_path
from vibe.system.plain_text import counted, one_line
from vibe.view.figures import ago

GOAL_LENGTH = 400
BARE = "/plan GOAL proposes a plan, and you say whether it runs, for example: /plan add CSV export, with tests"


async def plan_meant(talk: Talk, reference: str = "") -> PlanFolder:
    """Return the folder of the plan with this id, by default of the plan that runs or ran last here.

    Raises:
        UsageError: there is no such plan, or several match.
    """
    reference = reference or talk.plans.latest
    if not reference and talk.plans.session is not None:
        raise UsageError("the plan is about to start: try again in a moment")
    return await to_thread.run_sync(_found, talk.runtime.host.home, talk.opening.workdir, reference)


async def show_status(talk: Talk, reference: str) -> None:
    """Say how a plan and its steps stand."""
    folder = await plan_meant(talk, reference)
    read = await to_thread.run_sync(PlanRead.of, folder)
    talk.say("\n".join(read.lines(in_chat=True)))


async def show_plan(talk: Talk, reference: str) -> None:
    """Draw a plan's steps and their dependencies."""
    folder = await plan_meant(talk, reference)
    loaded, state = await to_thread.run_sync(current_state, folder)
    talk.say(f"{folder.plan_id}: {one_line(loaded.plan.goal, GOAL_LENGTH)}\n{plan_text(loaded.plan, state.steps)}")


async def list_all(talk: Talk, _rest: str) -> None:
    """List the plans that have been run, in any folder."""
    plans = await to_thread.run_sync(plans_that_ran, talk.runtime.host.home)
    talk.say("\n".join(map(plan_line, plans)) or "no plan has been run yet: /plan GOAL proposes one")


async def save_plan(talk: Talk, name: str) -> None:
    """Write a plan in its current form to a new file."""
    folder = await plan_meant(talk)
    loaded = await to_thread.run_sync(effective_plan, folder)
    await save(talk, loaded.source_bytes, name)


async def report(talk: Talk, name: str) -> None:
    """Write the report of the last plan to a new file, or as HTML to the plan's folder if none is named."""
    folder, environ = await plan_meant(talk), talk.runtime.host.environ
    if name:
        form = ReportFormat.of_file("/report", name)
        text = await to_thread.run_sync(lambda: render(folder, form, environ))
        await save(talk, text.encode(), name)
    else:
        path = folder.path / "report.html"
        await to_thread.run_sync(write_report, folder, path, ReportFormat.HTML, environ)
        talk.say(f"the report of plan {folder.plan_id} is in {path}; /report FILE writes it elsewhere, as .md too")


async def load_file(talk: Talk, name: str) -> None:
    """Propose the plan in a file."""
    loaded = await to_thread.run_sync(lambda: read_plan_file(typed_path(talk.opening.workdir, name)))
    propose(talk, loaded.plan.goal, loaded)


async def undo(talk: Talk, _rest: str) -> None:
    """Propose the last dropped plan again.

    Raises:
        UsageError: no plan was dropped.
    """
    dropped = talk.plans.dropped
    if dropped is None:
        raise UsageError("no plan was dropped here")
    propose(talk, dropped.plan.goal, dropped)


async def watch(talk: Talk, _rest: str) -> None:
    """Run the built-in demonstration, with a script as its model."""
    go_on(talk, partial(to_thread.run_sync, lambda: read_plan_file(quickstart_file())))


def _found(home: Path, workdir: Path, reference: str) -> PlanFolder:
    if reference:
        return find_plan(home, reference)
    found = next(plans_in(home, str(workdir)), None)
    if found is not None:
        return found
    raise UsageError("no plan has been run in this folder: /plan GOAL proposes one")


GOES_ON = "; /plan resume continues it"
DOES = {StepAction.CANCEL: "being cancelled", StepAction.SKIP: "skipped", StepAction.RETRY: "trying again"}


async def pause(talk: Talk, _rest: str) -> None:
    """Pause the running plan, which says what it waits for."""
    talk.plans.running.control.submit(Pause())


async def resume(talk: Talk, reference: str) -> None:
    """Resume a plan that was paused or interrupted."""
    talk.plans.check_free()
    go_on(talk, (await plan_meant(talk, reference)).plan_id)


async def cancel(talk: Talk, step_id: str) -> None:
    """Cancel the plan, or one of its steps."""
    if step_id:
        await act(talk, step_id, StepAction.CANCEL)
    elif talk.plans.session is not None:
        talk.plans.session.control.submit(Cancel())
        talk.say("cancelling")
    elif not talk.plans.interrupt():
        talk.plans.check_free()  # otherwise /plan cancel means the proposed plan
        await _order(talk, Cancel(), "")


async def retry(talk: Talk, rest: str) -> None:
    """Retry a step, by default the failed one; a plan that has ended continues with it.

    Words after the step go to its agent.

    Raises:
        UsageError: several steps failed, or none.
    """
    folder = await plan_meant(talk)
    step_id, _, words = rest.partition(" ")
    if not step_id:
        _, state = await to_thread.run_sync(current_state, folder)
        failed = [name for name, step in state.steps.items() if step.status is StepStatus.FAILED]
        if len(failed) != 1:
            raise UsageError(f"/retry STEP: {'failed: ' + ', '.join(failed) if failed else 'no step has failed'}")
        step_id = failed[0]
    await act(talk, step_id, StepAction.RETRY, words.strip())
    if talk.plans.session is None:
        go_on(talk, folder.plan_id)


async def act(talk: Talk, step_id: str, action: StepAction, message: str = "") -> None:
    """Cancel, skip or retry a step; ``message`` goes to its agent."""
    goes_on = "" if action is StepAction.RETRY else GOES_ON
    await _order(talk, Act(step_id=step_id, action=action, message=message), f"{step_id}: {DOES[action]}", goes_on)


async def decide(talk: Talk, rest: str) -> None:
    """Take one of the plan's decisions."""
    decision, *selections = rest.replace(",", " ").split()
    command = Decide(decision_id=decision, selections=tuple(selections))
    await _order(talk, command, f"decision {decision!r} taken: {', '.join(selections)}", GOES_ON)


async def _order(talk: Talk, command: Act | Cancel | Decide, done: str, goes_on: str = "") -> None:
    """Give a command to the running plan, which then says ``done``, or else to the folder's last plan."""
    session = talk.plans.session
    if session is not None:
        session.control.submit(command, _reporter(talk, done))
        return
    folder = await plan_meant(talk)
    reply = await give(talk.runtime.host, folder.plan_id, command)
    talk.say(f"plan {folder.plan_id}: {reply.message}{goes_on}")


async def edit(talk: Talk, reference: str) -> None:
    """Let the person change a plan in their editor."""
    session, folder = talk.plans.session, await plan_meant(talk, reference)
    current = await to_thread.run_sync(effective_plan, folder)
    text = json.dumps(json.loads(current.source_bytes), indent=2, ensure_ascii=False) + "\n"
    changed = await talk.edit(text, "plan.json")
    async with kept_if_wrong(talk, changed):
        wanted = await to_thread.run_sync(partial(load_plan, changed, where="the plan"))
        operations = operations_between(current.plan, wanted.plan)
    done = f"plan {folder.plan_id}: {counted(len(operations), 'change')} made"
    if not operations:
        talk.say(f"plan {folder.plan_id}: nothing to change")
    elif session is not None and session.plan_id == folder.plan_id:
        session.control.submit(Revise(operations=plain_operations(operations)), _reporter(talk, done))
    else:
        await revise(talk.runtime.host, folder.plan_id, operations, trust=talk.opening.trust)
        talk.say(done)


def _reporter(talk: Talk, done: str) -> Callable[[str | None], None]:
    """Return a callback that says how the running plan answered a command."""
    return lambda problem: talk.say(problem, "error") if problem else talk.say(done)


MANY = 100


async def _new(talk: Talk, goal: str) -> None:
    propose(talk, goal)


class PlanWord(Struct, frozen=True):
    """A word of ``/plan``. It takes ``least`` to ``most`` words; followed by more, it is the start of a goal."""

    act: Callable[[Talk, str], Awaitable[None]]
    usage: str
    least: int = 0
    most: int = 1


WORDS = MappingProxyType({
    "new": PlanWord(_new, "GOAL", 1, MANY),
    "status": PlanWord(show_status, "[ID]"),
    "show": PlanWord(show_plan, "[ID]"),
    "list": PlanWord(list_all, "", 0, 0),
    "pause": PlanWord(pause, "", 0, 0),
    "resume": PlanWord(resume, "[ID]"),
    "cancel": PlanWord(cancel, "[STEP]"),
    "decide": PlanWord(decide, "DECISION OPTION[,OPTION]", 2, 2),
    "retry": PlanWord(retry, "[STEP [WORDS]]", 0, MANY),
    "skip": PlanWord(partial(act, action=StepAction.SKIP), "STEP", 1),
    "edit": PlanWord(edit, "[ID]"),
    "report": PlanWord(report, "[FILE]"),
    "save": PlanWord(save_plan, "FILE", 1),
    "load": PlanWord(load_file, "FILE", 1),
    "undo": PlanWord(undo, "", 0, 0),
    "demo": PlanWord(watch, "", 0, 0),
})


async def run_plan(talk: Talk, typed: TypedCommand) -> None:
    """Carry out one of the words of ``/plan``, or have a plan written."""
    if typed.name in WORDS:
        given = len(typed.rest.split())
        word = WORDS[typed.name]
        least = 1 if typed.name == "cancel" else word.least  # a bare /cancel must not give up the whole plan
        if not least <= given <= word.most:
            wrong = "STEP: name a step of the plan" if word.most else "takes nothing after it"
            raise UsageError(f"/{typed.name} {wrong}")
        await word.act(talk, typed.rest)
        return
    name, *rest = typed.rest.split(maxsplit=1) or [""]
    word, text = WORDS.get(name), "".join(rest)
    if word is None or len(text.split()) > word.most:
        if typed.rest:
            propose(talk, typed.rest)
        else:
            talk.say(f"{BARE}\nfor a plan that exists: /plan {', '.join(WORDS)}")
    elif len(text.split()) < word.least:
        raise UsageError(f"/plan {name} {word.usage} (a goal that begins so: /plan new {name} ...)")
    else:
        await word.act(talk, text)


async def plan_picker(talk: Talk) -> Picker:
    """Return a picker of this folder's plans, to resume or to view."""
    home, here = talk.runtime.host.home, str(talk.opening.workdir)
    summaries = await to_thread.run_sync(lambda: [plan.summary() for plan in plans_in(home, here, LOOKED_AT)])
    rows = [_plan_row(plan) for plan in summaries]

    def preview(row: PickRow, _mode: int) -> list[Line]:
        folder = find_plan(home, row.line.rpartition(" ")[2])
        first, *lines = PlanRead.of(folder).lines(in_chat=True)
        return [*wrapped(row.title, "bold"), [], *wrapped(first, "muted"), [], *([(line, "")] for line in lines)]

    return Picker(title="Plans of this folder", rows=lambda _: rows, preview=preview, enter="resume, or show")


def _plan_row(plan: PlanSummary) -> PickRow:
    word = "resume" if plan.can_go_on else "show"
    done, total = plan.progress
    fact = f"{done} of {total} · {ago(plan.updated, time.time())}" if total else ""
    return PickRow(
        f"/plan {word} {plan.plan_id}", one_line(plan.goal, GOAL_LENGTH) or plan.plan_id, fact, words=plan.plan_id
    )
