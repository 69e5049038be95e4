"""Looks at plans: the one that runs here, or the last one of this folder, or any by its id."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from planner.plan.loader import read_plan_file
from planner.report.graph_text import tree
from planner.store.current_plan import current_state
from planner.store.folder import PlanFolder, find_plan, latest_in
from vibe.app.plan.commands import plan_as_it_stands
from vibe.cli.render.event_text import one_line
from vibe.cli.render.plan_listing import PlanRead, plan_line, plans_that_ran
from vibe.cli.slash.command import Talk
from vibe.cli.slash.plan.propose import propose, save
from vibe.core.errors import UsageError

GOAL_LENGTH = 400


async def plan_meant(talk: Talk, reference: str = "") -> PlanFolder:
    """Return the folder of the plan of that id; without one, of the plan that runs here, else of the last one here.

    Raises:
        UsageError: there is none, or several.
    """
    running = talk.plans.session
    if not reference and running is not None:
        if running.plan_id is None:
            raise UsageError("the plan is about to start: try again in a moment")
        reference = running.plan_id
    return await to_thread.run_sync(_found, talk.runtime.host.home, talk.opening.workdir, reference)


async def show_status(talk: Talk, reference: str) -> None:
    """Say how a plan and its steps stand."""
    folder = await plan_meant(talk, reference)
    read = await to_thread.run_sync(PlanRead.of, folder)
    talk.say("\n".join(read.lines(in_chat=True)))


async def show_plan(talk: Talk, reference: str) -> None:
    """Draw a plan's steps and what each depends on."""
    folder = await plan_meant(talk, reference)
    loaded, state = await to_thread.run_sync(current_state, folder)
    statuses = {step_id: step.status for step_id, step in state.steps.items()}
    talk.say(f"{folder.plan_id}: {one_line(loaded.plan.goal, GOAL_LENGTH)}\n{tree(loaded.plan, loaded.dag, statuses)}")


async def list_all(talk: Talk, _rest: str) -> None:
    """List the plans that have been run, in whatever folder."""
    plans = await to_thread.run_sync(plans_that_ran, talk.runtime.host.home)
    talk.say("\n".join(map(plan_line, plans)) or "no plan has been run yet: /plan GOAL proposes one")


async def save_plan(talk: Talk, name: str) -> None:
    """Write a plan as it stands to a new file."""
    folder = await plan_meant(talk)
    loaded = await to_thread.run_sync(plan_as_it_stands, talk.runtime.host, folder.plan_id)
    await save(talk, loaded, name)


async def load_file(talk: Talk, name: str) -> None:
    """Propose the plan of a file."""
    loaded = await to_thread.run_sync(lambda: read_plan_file(talk.opening.workdir / Path(name).expanduser()))
    propose(talk, loaded.plan.goal, loaded)


def _found(home: Path, workdir: Path, reference: str) -> PlanFolder:
    if reference:
        return find_plan(home, reference)
    found = latest_in(home, str(workdir))
    if found is not None:
        return found
    raise UsageError("no plan has been run in this folder: /plan GOAL proposes one")
