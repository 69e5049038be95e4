"""The view of real runs is the same when fed live and when read from the journals, early or late."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from ipc.codec import decode_event
from ipc.events import Event
from ipc.journal import JournalReader
from ipc.sink import MemorySink
from planner.plan.loader import load_plan
from planner.store.folder import ApprovalSetting, PlanRunOptions
from tests.fakes.model_server import Reply, ServedCall
from tests.fakes.plain_view import plain
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import open_plan
from vibe.view.view import View, apply

EXAMPLES = Path(__file__).parents[4] / "plans-examples"


def fold(*parts: Iterable[Event]) -> View:
    view = View()
    for events in parts:
        for event in events:
            apply(view, event)
    return view


def all_of(view: View) -> tuple[dict[str, Any], dict[str, object]]:
    return plain(view), {name: plan.state for name, plan in view.plans.items()}


def journals(home: Path) -> list[Event]:
    """Return the events of all runs of a home, in the order of the runs."""
    found: list[list[Event]] = []
    for path in home.glob("run/*/journal.jsonl"):
        reader = JournalReader(path)
        events = [event for _, body in reader.read_batch(1 << 30) if (event := decode_event(body)) is not None]
        reader.close()
        found.append(events)
    return [event for events in sorted(found, key=lambda events: events[0].ts) for event in events]


def compare(live: Sequence[Event], replayed: Sequence[Event]) -> View:
    """Check that observers who watched from the start and observers who came later, at any time, see the same."""
    view = fold(live)
    whole = all_of(view)
    assert len(replayed) == len(live)
    assert all_of(fold(replayed)) == whole
    for cut in range(len(live)):
        assert all_of(fold(replayed[:cut], live[cut // 2 :])) == whole
    return view


async def run(plan: str | Path, options: PlanRunOptions, home: Path, sink: MemorySink) -> str:
    host = Host(home=home, environ={"PATH": os.environ["PATH"], "TMPDIR": str(home.parent)})
    opened = plan if isinstance(plan, str) else load_plan(await anyio.Path(plan).read_text(), where=str(plan))
    ended = await (await open_plan(opened, options, host, Audience(listeners=[sink]))).run()
    return str(ended.record.plan_id)


async def test_a_plan_of_agents_is_the_same_live_and_replayed(tmp_path: Path, vibe_home: Path) -> None:
    sink = MemorySink()
    options = PlanRunOptions(workdir=tmp_path, plan_folder=EXAMPLES, approvals=ApprovalSetting.EDITS)
    plan_id = await run(EXAMPLES / "quickstart.json", options, vibe_home, sink)

    view = await to_thread.run_sync(lambda: compare(sink.events, journals(vibe_home)))
    plan = view.plans[plan_id]
    assert (plan.status, plan.outcome, plan.done) == ("completed", "completed", 6)
    assert plan.tokens == sum(step.spent.tokens for step in plan.steps.values()) > 30_000
    slugify = plan.steps["slugify"]
    assert (sorted(slugify.files), bool(slugify.summary)) == (["tests/test_slugs.py", "textkit/slugs.py"], True)
    kinds = [entry.kind for agent in slugify.agents.values() for entry in agent.entries.values()]
    assert {"user", "answer", "call"} <= set(kinds)
    assert not view.requests


async def test_a_plan_that_was_paused_and_resumed_is_one_plan_of_two_runs(tmp_path: Path, vibe_home: Path) -> None:
    steps = [
        {"id": "a", "title": "A", "mode": "run", "command": "echo one"},
        {"id": "b", "title": "B", "mode": "run", "command": "echo two", "depends_on": ["a"], "decision": "go"},
    ]
    asked = {"id": "go", "question": "Go on?", "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]}
    plan = tmp_path / "plan.json"
    document = {"version": 1, "goal": "g", "steps": steps, "decisions": [asked]}
    await anyio.Path(plan).write_text(json.dumps(document))
    sink = MemorySink()
    options = PlanRunOptions(workdir=tmp_path, plan_folder=tmp_path)
    plan_id = await run(plan, options, vibe_home, sink)
    paused = fold(sink.events)
    assert (paused.plans[plan_id].status, list(paused.requests)) == ("paused", [f"{plan_id}:go"])

    options = PlanRunOptions(workdir=tmp_path, plan_folder=tmp_path, decisions={"go": ("yes",)})
    assert await run(plan_id, options, vibe_home, sink) == plan_id
    view = await to_thread.run_sync(lambda: compare(sink.events, journals(vibe_home)))
    assert (len(view.runs), list(view.plans), view.requests) == (2, [plan_id], {})
    assert (view.plans[plan_id].status, view.plans[plan_id].done) == ("completed", 2)


async def test_a_conversation_is_the_same_live_and_replayed(rig: Rig) -> None:
    listing = ServedCall(name="bash", arguments=json.dumps({"command": "ls"}), id="c1")
    rig.server.enqueue(
        Reply(tool_calls=(listing,)), Reply(text="there is a.txt"), Reply(text="again"), Reply(text="anew")
    )
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        await conversation.send("look")
        await conversation.send("and now?")
        await conversation.clear()
        await conversation.send("once more")
        await conversation.aclose()

    view = await to_thread.run_sync(lambda: compare(rig.events.events, journals(rig.host.home)))
    main = view.main
    assert main is not None
    assert [agent.id for agent in view.agents.values()] == [main.id]
    said = [entry.text.strip() for entry in main.entries.values() if entry.kind in {"user", "answer"}]
    assert said[-2:] == ["once more", "anew"]
    assert "look" not in said
    assert main.transcript.older
