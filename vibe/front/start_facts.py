"""Gathers facts for the start screen about the opened conversation, its folder, and unfinished plans there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ipc.events import Expectation
from planner.plan.expectation import to_go
from planner.store.current_plan import current_state
from planner.store.folder import PlanSummary, find_plan
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.setup import Setup
from vibe.core.config.paths import shown
from vibe.core.config.trust import DOCS
from vibe.core.guidance import Guidance
from vibe.core.llm.pricing import usual_prices
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.plan_listing import left_in, plan_line
from vibe.front.start_screen import AgentFacts, GitFacts, ModelFacts, ProjectFacts, SandboxFacts
from vibe.shell.port import ToolPermission
from vibe.shell.sandbox.settings import Network
from vibe.system.errors import VibeError
from vibe.system.git.discovery import git_head

MOST_LEFT: Final = 3
"""Unfinished plans that the screen names; ``/plan list`` shows them all."""
MOST_NAMES: Final = 1_000
"""Entries of the folder that are searched for tests."""
TEST_FOLDERS: Final = ("tests", "test", "spec", "__tests__")
TEST_FILES: Final = ("test_*.py", "*_test.py", "*_test.go", "*.test.ts", "*.test.js", "*_spec.rb")
WRITER: Final = "write_file"


def agent_facts(conversation: Conversation) -> AgentFacts:
    """Return the agent, model and confinement that apply from the next prompt on.

    It may start processes, so don't call it on an event loop. The model's prices are those in its settings.
    """
    setup, mode = conversation.setup, conversation.approvals.mode
    model = setup.model
    known = None if model.input_price is None or model.output_price is None else (model.input_price, model.output_price)
    return AgentFacts(
        model=ModelFacts(name=model.key, prices=known, has_key=setup.missing_key is None),
        mode=_mode(setup, mode),
        is_unbound=setup.writes and mode is ApprovalMode.ALL,
        sandbox=_sandbox(setup),
        tools=len(setup.tools.available),
        skills=len(setup.engine.guidance.skills.available),
        servers=len(conversation.servers.states()),
    )


def priced_facts(conversation: Conversation, facts: AgentFacts) -> AgentFacts:
    """Return the facts with the model's prices, if they are known.

    It may load a price list, so don't call it on an event loop.
    """
    model = conversation.setup.model
    try:
        prices = usual_prices(conversation.setup.engine.models.provider(model), model)
    except VibeError:  # no such provider: the first prompt reports it
        return facts
    return replace(facts, model=replace(facts.model, prices=prices))


def project_facts(conversation: Conversation, home: Path) -> ProjectFacts:
    """Return facts about a conversation's folder and the unfinished plans there; reads files.

    Git isn't asked again: its answer from the opening is used.
    """
    setup = conversation.setup
    workdir, guidance = setup.opening.workdir, setup.engine.guidance
    names, left = sorted(_names(workdir)), _left(home, workdir)
    return ProjectFacts(
        git=_git(workdir, guidance),
        docs=[_named(doc.path, workdir, setup) for doc in reversed(guidance.docs.docs)],
        unread="" if guidance.trusts(workdir.resolve()) else next((name for name in DOCS if name in names), ""),
        tests=_tests(workdir, names),
        is_empty=all(name.startswith(".") for name in names),
        left=left,
        to_go={plan.plan_id: ahead for plan in left if (ahead := _ahead(home, plan))},
    )


def left_line(home: Path, workdir: Path) -> str:
    """Return a folder's newest unfinished plan and how to resume it, or ``""`` if there is none; reads files."""
    for plan in _left(home, workdir)[:1]:
        return f"{plan_line(plan)}\n/plan resume {plan.plan_id} continues it"
    return ""


def _mode(setup: Setup, mode: ApprovalMode) -> str:
    if not setup.writes:
        return "reads only, changes nothing"
    if mode is ApprovalMode.ALL:
        return "AUTO-APPROVES EVERYTHING"
    tools = setup.tools
    edits = WRITER in tools.available and tools.get_tool_config(WRITER).permission is ToolPermission.ALWAYS
    if edits or mode is ApprovalMode.EDITS:
        return "edits files unasked, asks before it runs commands"
    return "asks before it edits or runs commands"


def _sandbox(setup: Setup) -> SandboxFacts | None:
    try:
        choice = setup.engine.confinement.choice()
    except VibeError:  # unknown now; a required sandbox was checked when the conversation was opened
        return None
    if choice.sandbox is None:
        return SandboxFacts()
    is_open = setup.engine.config.sandbox.network is Network.ON
    return SandboxFacts(name=choice.sandbox.name.partition(" ")[0], has_network=is_open)


def _git(workdir: Path, guidance: Guidance) -> GitFacts:
    view = guidance.git
    if view is not None and view.branch is not None:
        return GitFacts(branch=view.branch, changed=view.changes)
    commit, branch = git_head(workdir)  # git was not asked, or did not answer in time
    return GitFacts(is_repository=not (commit is None and branch is None), branch=branch or "")


def _named(path: Path, workdir: Path, setup: Setup) -> str:
    """Return the path of an instructions file: its name if it lies in the folder itself, else a path with ``~``."""
    own = path.parent == workdir.resolve()
    return path.name if own else shown(path, setup.engine.loaded.user_home)


def _names(folder: Path) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (entry.name for entry in islice(entries, MOST_NAMES))


def _tests(folder: Path, names: list[str]) -> str:
    """Return the folder or file of a project's own tests if a quick look finds one, else ``""``."""
    for name in TEST_FOLDERS:
        if name in names and os.path.isdir(folder / name) and next(_names(folder / name), ""):
            return f"{name}/"
    return next((name for name in names if any(Path(name).match(pattern) for pattern in TEST_FILES)), "")


def _left(home: Path, workdir: Path) -> list[PlanSummary]:
    with suppress(VibeError):
        return list(left_in(home, str(workdir), MOST_LEFT))
    return []


def _ahead(home: Path, plan: PlanSummary) -> Expectation | None:
    """Return the expected rest of an unfinished plan, or None if it is unknown."""
    with suppress(VibeError):
        _, state = current_state(find_plan(home, plan.plan_id))
        steps = [step.outline for step in state.steps.values() if not step.status.is_final]
        return None if state.expected is None else to_go(steps, state.expected)
    return None
