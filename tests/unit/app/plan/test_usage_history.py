"""The cost of a plan, from its journal and from conversations that no record mentions."""

from __future__ import annotations

from pathlib import Path

from ipc.commands import Revise
from planner.store.folder import PlanFolder, RunSettings
from planner.store.store import PlanStore
from subagents.step.local_executor import transcript_name
from tests.unit.planner.facts import began, took_up
from tests.unit.planner.scripted_run import make_plan, step
from vibe.app.plan.report import read_report
from vibe.app.plan.usage_history import earlier_spending, revisions_folder, spending_by_attempt
from vibe.core.messages import AssistantMessage, Usage
from vibe.core.session.folder import Transcript


def conversation(path: Path, usage: Usage, cost_usd: float) -> None:
    """Write a conversation that was cut off after its first answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    transcript = Transcript(path=path)
    transcript.append(AssistantMessage(content="half an answer", usage=usage, cost_usd=cost_usd))


def killed_plan(home: Path) -> PlanFolder:
    """Return a plan whose process died in the middle of its step ``a``, which was then removed."""
    source = make_plan([step("a"), step("b")]).model_dump_json(exclude_unset=True).encode()
    with PlanStore.create(home, RunSettings(workspace=str(home), max_parallel=1), source) as store:
        store.append(took_up(1.0, None, "a", "b"))
        store.append(began("a"))
        conversation(store.folder.step_folder("a") / transcript_name(1), Usage(100, 20, 0, 1), 0.5)
        conversation(revisions_folder(store.folder) / "a.someone.jsonl", Usage(30, 3, 0, 1), 0.25)
        store.take(Revise(operations=({"op": "remove_step", "id": "a"},)))
        return store.folder


def test_what_a_killed_step_took_counts_although_it_was_removed(tmp_path: Path) -> None:
    folder = killed_plan(tmp_path)
    state = folder.state()

    assert spending_by_attempt(state, folder)["a", 1].usage == Usage(100, 20, 0, 1)
    earlier = earlier_spending(state, folder)
    assert (earlier.usage, earlier.cost_usd) == (Usage(130, 23, 0, 2), 0.75)


def test_the_report_lists_what_was_spent_besides_the_steps(tmp_path: Path) -> None:
    report, _ = read_report(killed_plan(tmp_path))

    assert [(each.what, each.step_id, each.spent.total_tokens) for each in report.other_spending] == [
        ("removed", "a", 120),
        ("mending", "a", 33),
    ]
    assert (report.spent.total_tokens, report.spent.cost_usd) == (153, 0.75)
