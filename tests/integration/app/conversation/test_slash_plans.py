"""``/plan`` and its subcommands in a real conversation. The planner's answers are scripted, and steps are commands."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest
from anyio import create_task_group, sleep, sleep_forever, to_thread

from ipc.commands import GivePrompt, Steer
from ipc.control import send_command
from ipc.events import Event, ModelStartedEvent, PlanProposedEvent, PlanResumedEvent, PlanStartedEvent
from ipc.registry import Registry
from ipc.sink import MemorySink
from planner.store.folder import PlanFolder, plans_folder
from tests.fakes.model_server import Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from tests.integration.app.conversation.scripted_talk import ScriptedTalk, talking
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.run import PlanRun
from vibe.cli.textual_ui.screens.review_screen import ReviewScreen, review_changes
from vibe.front.slash import plan_proposal
from vibe.front.slash.command import TypedCommand
from vibe.front.slash.commands import plan as acts
from vibe.front.slash.plan_talk import PlanVerdict, VerdictKind
from vibe.system.errors import UsageError

RUN, DROP = PlanVerdict(VerdictKind.RUN), PlanVerdict(VerdictKind.DROP)


def step(name: str, command: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "title": f"Do {name}", "mode": "run", "command": command, **more}


def hand_in(*steps: dict[str, Any]) -> Reply:
    value = json.dumps({"value": {"steps": list(steps)}})
    return Reply(tool_calls=(ServedCall(name="hand_in_plan", arguments=value),))


BUILD = step("build", "echo built > built.txt")
CHECK = step("check", "test -e gate", depends_on=["build"])


class Answers:
    """Gives verdicts on a plan one by one, and keeps what it is asked about and the runs that ended."""

    def __init__(self, talk: ScriptedTalk, *verdicts: PlanVerdict) -> None:
        self.asked: list[list[str]] = []
        self.texts: list[str] = []
        """What the person is given to edit, each time they are asked."""
        self.ended: list[PlanRun] = []
        self._verdicts = list(verdicts)
        talk.plans.accept = self._accept
        talk.plans.ended = self.ended.append

    async def _accept(self, draft: PlanDraft) -> PlanVerdict:
        self.asked.append([step.id for step in draft.loaded.plan.steps])
        self.texts.append(draft.text)
        return self._verdicts.pop(0)

    @property
    def statuses(self) -> Sequence[str]:
        return [run.status.value for run in self.ended]


def content(path: Path) -> Any:
    return json.loads(path.read_text())


async def test_the_demonstration_needs_no_model_and_is_as_slow_as_it_is_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_proposal, "WATCHED_SLOWED", 1.5)
    async with talking(rig) as talk:
        answers, began = Answers(talk), monotonic()
        await talk.do("/plan demo")
        assert answers.statuses == ["completed"]
        assert monotonic() - began > 1.5 * 1.8  # the turns of the longest path take that long
        assert rig.server.requests == []
        assert not (rig.folder / "textkit").exists()
        assert "slugify: Write slugify() (completed)" in await talk.do("/plan status")
        assert "report.html" in await talk.do("/report")
        seen: list[ReviewScreen] = []

        async def look(screen: ReviewScreen) -> bool:
            seen.append(screen)
            return False

        await review_changes(look, talk, TypedCommand(name="review"))
        assert seen, "although its files are in another folder"


async def test_a_plan_fails_is_looked_at_and_gone_on_with(rig: Rig) -> None:
    async with talking(rig) as talk:
        answers = Answers(talk, RUN)
        rig.server.enqueue(hand_in(BUILD, CHECK))
        await talk.do("/plan Build it")
        assert answers.statuses == ["failed"]
        status = await talk.do("/plan status")
        assert "build: Do build (completed)" in status
        assert "check: Do check (failed)" in status
        assert "try again with: /retry check, or go on without it: /skip check" in status
        assert "check" in await talk.do("/plan show")
        plan_id = str(answers.ended[0].record.plan_id)
        assert (await talk.do("/plan list")).startswith(plan_id)
        (row,) = (await talk.picker("plan")).rows(0)
        assert (row.line, row.title) == (f"/plan show {plan_id}", "Build it")
        assert "check: Do check (failed)" in await talk.preview("plan")
        await to_thread.run_sync((rig.folder / "gate").touch)
        assert "trying again: check" in await talk.do("/retry")
        assert answers.statuses == ["failed", "completed"]
        assert "completed" in await talk.do("/plan resume")
        assert not talk.plans.is_taken

    assert answers.asked == [["build", "check"]]


async def test_a_proposal_is_changed_saved_and_loaded_again(rig: Rig) -> None:
    document = json.dumps({"version": 1, "goal": "Mine", "steps": [BUILD]})
    verdicts = (
        PlanVerdict(VerdictKind.REVISE, "check it, too"),
        PlanVerdict(VerdictKind.SAVE, "plan.json"),
        PlanVerdict(VerdictKind.SAVE, "plan.json"),
        PlanVerdict(VerdictKind.EDIT, "no plan"),
        PlanVerdict(VerdictKind.EDIT, document),
        DROP,
        DROP,
    )
    async with talking(rig) as talk:
        answers = Answers(talk, *verdicts)
        rig.server.enqueue(hand_in(BUILD), hand_in(BUILD, CHECK))
        told = await talk.do("/plan new list all of it")
        assert told.count("plan.json already exists") == 1
        assert "dropped · /plan undo" in told
        assert "vibe: the plan" in told
        saved = await to_thread.run_sync(content, rig.folder / "plan.json")
        await talk.do("/plan load plan.json")

    both = ["build", "check"]
    assert [one["id"] for one in saved["steps"]] == both
    assert answers.asked == [["build"], both, both, both, both, ["build"], both]
    assert [text for text in answers.texts if not text.startswith("{")] == ["no plan"]
    assert (answers.texts[4], answers.texts[5]) == ("no plan", document)
    assert answers.ended == []


async def test_a_comment_from_outside_changes_the_proposal_and_one_for_nobody_is_refused(rig: Rig) -> None:
    """The comment comes as any command does, over the socket of the run that plans."""
    proposed = anyio.Event()
    oks: list[bool] = []

    async with talking(rig) as talk:
        answers = Answers(talk)

        async def wait_for_ever(draft: PlanDraft) -> PlanVerdict:
            answers.asked.append([step.id for step in draft.loaded.plan.steps])
            if len(answers.asked) > 1:
                return DROP
            proposed.set()
            await sleep_forever()
            raise AssertionError

        async def comment() -> None:
            await proposed.wait()
            runs = await to_thread.run_sync(Registry(rig.host.home).running)
            run = next(each for each in runs if each.info.title == "Build it")
            for command in (
                Steer(text="for another", step_id="build"),
                GivePrompt(text="see", images=("a.png",)),
                GivePrompt(text="check it, too", by="page"),
            ):
                oks.append((await send_command(run, command)).ok)

        talk.plans.accept = wait_for_ever
        rig.server.enqueue(hand_in(BUILD), hand_in(BUILD, CHECK))
        talk.begin(comment)
        told = await talk.do("/plan Build it")

    assert answers.asked == [["build"], ["build", "check"]]
    assert oks == [False, False, True]
    assert "page: check it, too" in told
    assert "check it, too" in json.dumps(rig.server.requests[1].body)


async def test_a_plan_that_ended_can_be_edited_no_more_and_saved(rig: Rig) -> None:
    async with talking(rig) as talk:
        answers = Answers(talk, RUN)
        rig.server.enqueue(hand_in(BUILD))
        await talk.do("/plan Build it")
        assert answers.statuses == ["completed"]
        with pytest.raises(UsageError, match="what you wrote is in"):
            await talk.do("/plan edit")
        assert "written to" in await talk.do("/plan save done.json")
        assert (await to_thread.run_sync(content, rig.folder / "done.json"))["goal"] == "Build it"


async def test_the_report_of_the_last_plan_is_written_where_one_says(rig: Rig) -> None:
    async with talking(rig) as talk:
        Answers(talk, RUN)
        rig.server.enqueue(hand_in(BUILD))
        await talk.do("/plan Build it")
        said = await talk.do("/report")
        assert f"written to {rig.folder / 'report.md'}" in await talk.do("/report report.md")
        for wrong, why in (("report.md", "already exists"), ("report.doc", "ends in .md, .html, .json or .xml")):
            with pytest.raises(UsageError, match=why):
                await talk.do(f"/report {wrong}")

    (page,) = await to_thread.run_sync(lambda: list(rig.host.home.glob("plans/*/report.html")))
    assert str(page) in said
    assert "Build it</h1>" in await to_thread.run_sync(page.read_text)
    assert (await to_thread.run_sync((rig.folder / "report.md").read_text)).startswith("# Build it\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/report", "no plan has been run in this folder"),
        ("/plan skip", "/plan skip STEP"),
        ("/plan decide this", "/plan decide DECISION OPTION"),
        ("/plan load nowhere.json", "nowhere.json"),
        ("/plan status", "no plan has been run in this folder"),
        ("/plan resume", "no plan has been run in this folder"),
        ("/plan show abc", "no plan has run yet"),
        ("/plan pause", "no plan is running"),
        ("/skip", "/skip STEP: name a step of the plan"),
        ("/retry a b", "no plan has been run in this folder"),
        ("/cancel", "/cancel STEP: name a step of the plan"),
        ("/cancel one", "no plan has been run in this folder"),
        ("/pause now", "/pause takes nothing after it"),
        ("/pause", "no plan is running"),
    ],
)
async def test_wrong_words_are_answered_with_what_is_right(rig: Rig, line: str, expected: str) -> None:
    async with talking(rig) as talk:
        with pytest.raises(UsageError) as raised:
            await talk.do(line)

    assert expected in str(raised.value)


async def test_plan_alone_says_what_can_follow(rig: Rig) -> None:
    async with talking(rig) as talk:
        said = await talk.do("/plan")
    assert "for example: /plan add CSV export, with tests" in said
    assert "/plan new, status, show" in said


async def test_a_plan_that_was_dropped_is_proposed_again(rig: Rig) -> None:
    async with talking(rig) as talk:
        answers = Answers(talk, DROP, RUN)
        with pytest.raises(UsageError, match="no plan was dropped here"):
            await talk.do("/plan undo")
        rig.server.enqueue(hand_in(BUILD))
        assert await talk.do("/plan Build it") == "dropped · /plan undo"
        await talk.do("/plan undo")

    assert answers.asked == [["build"], ["build"]]
    assert answers.statuses == ["completed"]
    assert len(rig.server.requests) == 1


async def test_a_plan_is_expected_to_take_what_earlier_ones_took_and_keeps_that(rig: Rig) -> None:
    async with talking(rig) as talk:
        answers = Answers(talk, RUN, RUN)
        rig.server.enqueue(hand_in(BUILD), hand_in(BUILD, CHECK))
        await talk.do("/plan Build it")
        await talk.do("/plan Build and check it")
        await to_thread.run_sync((rig.folder / "gate").touch)
        await talk.do("/retry")

    first, second = rig.seen(PlanProposedEvent)
    assert first.expected is None, "nothing is known yet"
    assert second.expected is not None
    assert set(second.expected.steps) == {"build", "check"}
    assert second.expected.seconds >= second.expected.steps["check"].seconds
    folder = PlanFolder(plans_folder(rig.host.home) / str(answers.ended[-1].record.plan_id))
    facts = (await to_thread.run_sync(folder.journal)).facts
    began = next(fact for fact in facts if isinstance(fact, PlanStartedEvent))
    resumed = next(fact for fact in facts if isinstance(fact, PlanResumedEvent))
    assert began.expected is not None
    assert resumed.expected == began.expected


class Telling(MemorySink):
    """Sends the planner a message when it first calls a model."""

    talk: ScriptedTalk | None = None
    told = False

    def publish(self, event: Event) -> None:
        super().publish(event)
        if isinstance(event, ModelStartedEvent) and self.talk and not self.told:
            self.told = self.talk.plans.steer("mind the tests")


async def test_a_model_that_plans_is_told_something(rig: Rig) -> None:
    rig.events = events = Telling()
    async with talking(rig) as talk:
        answers = Answers(talk, DROP)
        events.talk = talk
        look = Reply(tool_calls=(ServedCall(name="list_dir", arguments="{}"),))
        rig.server.enqueue(look, hand_in(BUILD))
        assert not talk.plans.steer("too early")

        await talk.do("/plan Build it")

        assert not talk.plans.steer("too late")
        told = json.dumps(rig.server.requests[-1].body)

    assert events.told
    assert "mind the tests" in told
    assert answers.asked == [["build"]]


async def test_words_of_a_plan_begin_a_goal_where_more_follow(rig: Rig) -> None:
    async with talking(rig) as talk:
        answers = Answers(talk, DROP)
        rig.server.enqueue(hand_in(BUILD))
        await talk.do("/plan list all files and count them")
        told = json.dumps(rig.server.requests[-1].body)

    assert answers.asked == [["build"]]
    assert "list all files and count them" in told


async def test_planning_is_stopped_at_once_and_leaves_what_was_proposed(rig: Rig) -> None:
    async with talking(rig) as talk:
        rig.server.enqueue(Reply(silent_after=0), hand_in(BUILD), Reply(silent_after=0))
        answers = Answers(talk, PlanVerdict(VerdictKind.REVISE, "check it, too"), RUN)

        async def stopped_by(stop: Callable[[], Awaitable[object]], asked: int) -> None:
            while len(rig.server.requests) < asked:  # noqa: ASYNC110  a server in a thread
                await sleep(0.01)
            await stop()

        async def interrupt() -> None:
            assert talk.plans.interrupt()

        async with create_task_group() as tasks:
            tasks.start_soon(stopped_by, lambda: acts.cancel(talk, ""), 1)
            assert await talk.do("/plan Build it") == "stopped planning"
        assert not talk.plans.is_taken
        async with create_task_group() as tasks:
            tasks.start_soon(stopped_by, interrupt, 3)
            assert "stopped planning: the plan is unchanged" in await talk.do("/plan Build it")
        assert not talk.plans.interrupt()

    assert answers.asked == [["build"], ["build"]]
    assert answers.statuses == ["completed"]


async def test_one_plan_at_a_time(rig: Rig) -> None:
    async with talking(rig) as talk:
        talk.plans.take()
        with pytest.raises(UsageError, match="one plan at a time"):
            await talk.do("/plan cancel")
        with pytest.raises(UsageError, match="one plan at a time"):
            await talk.do("/plan Build it")
        with pytest.raises(UsageError, match="one plan at a time"):
            await talk.do("/plan resume")
