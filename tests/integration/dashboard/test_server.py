"""The dashboard's server over real buses and real HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import create_task_group, fail_after, sleep, to_thread
from msgspec import structs

from ipc import events as e
from ipc.commands import Act, Approve, Pause, RunCommand, Steer
from ipc.registry import Entry, RunInfo
from tests.fakes.runs import ASKED, STEPS, Run, running
from tests.fakes.waiting import until
from tests.integration.dashboard.serving import PATIENCE_S, VIEW, listening_to, served
from vibe.app.watch.board import MOST_ENDED, Board
from vibe.app.watch.commands import CommandOutcome, send
from vibe.app.watch.runs import KnownRun
from vibe.dashboard import search
from vibe.dashboard.answers import MOST_BYTES
from vibe.dashboard.rows import MOST_STEPS
from vibe.dashboard.search import MOST_HITS, found_in_journals
from vibe.dashboard.stream import MOST_BEHIND, MOST_PAGES, PageDesk, WebPage
from vibe.dashboard.table import RowTable
from vibe.view.agent_view import MOST_ENTRIES

MESSAGE = "done"


@asynccontextmanager
async def one_run(home: Path, *, control: bool = True) -> AsyncGenerator[tuple[Run, httpx.AsyncClient]]:
    """Run a plan of two steps, the first of them running, and a dashboard that shows it."""
    async with running(home) as run, served(home, control=control) as client:
        run.begins()
        run.moves("a", "in_progress")
        yield run, client


def asks(run: Run) -> None:
    run.says(structs.replace(ASKED, subagent_id="agent", subagent_step_id="a"))


async def test_the_list_the_run_and_the_step_are_what_the_view_says(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client):
        asks(run)
        run.says(e.AssistantEvent(text="Hello", message_id="m", subagent_id="agent", subagent_step_id="a"))
        async with listening_to(client, run="plan-1") as page:
            await page.until("run", "request:request-1")
            await page.until("run", "step:a", turns=1)
        listed = (await client.get("/api/runs")).json()
        assert (listed["version"], listed["control"]) == (1, True)
        assert listed["runs"]["plan-1"]["title"] == "Tidy up"
        assert listed["requests"]["request-1"]["command"] == "make"
        shown = (await client.get("/api/runs/plan-1")).json()
        assert (shown["head"]["id"], shown["head"]["kind"], shown["head"]["total"]) == ("plan-1", "plan", 2)
        assert {name: row["status"] for name, row in shown["steps"].items()} == {"a": "in_progress", "b": "pending"}
        step = (await client.get("/api/runs/plan-1/steps/a")).json()
        assert [(one["agent"], one["text"]) for one in step["entries"]] == [("agent", "Hello")]
        assert (await client.get("/api/runs/plan-1/steps/a?before=1")).json()["entries"] == []
        for address in ("/api/runs/nothing", "/api/runs/plan-1/steps/z", "/api/nothing", "/nothing.js", "/../x"):
            assert (await client.get(address)).json()["error"] == "unknown", address
        assert (await client.get("/api/runs/plan-1/steps/a?limit=-1")).status_code == 400


async def test_a_page_hears_what_changed_and_after_a_pause_only_what_it_missed(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client):
        async with listening_to(client, run="plan-1", step="a") as page:
            await page.until("run", "step:a", status="in_progress")
            await page.read()
            assert page.now["control"] is True
            run.moves("a", "completed", "in_progress")
            await page.until("run", "step:a", status="completed")
            heard, tables = page.heard, page.tables
        run.moves("b", "in_progress")
        async with listening_to(client, run="plan-1", step="a", after=heard) as page:
            page.tables = tables
            await page.until("run", "step:b", status="in_progress")
            assert not [patch for patch in page.patches if patch.get("whole") or "step:a" in patch.get("set", {})]
            again = page.tables
        async with listening_to(client, run="plan-1", step="a") as fresh:
            await fresh.read()
            assert all(patch["whole"] for patch in fresh.patches)
            assert fresh.tables == again
        async with listening_to(client, run="plan-1", step="b", after=heard) as other:  # another step has no events
            await other.read()
            assert [patch["table"] for patch in other.patches if patch.get("whole")] == ["step"]
        for odd in ("0.1", "x", heard.partition(".")[0] + ".99999", "-" * 5_000):
            async with listening_to(client, run="plan-1", step="a", after=odd) as lost:
                await lost.read()
                assert all(patch["whole"] for patch in lost.patches)


async def test_entries_that_are_no_longer_kept_are_read_from_the_journal(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client):
        for number in range(1, MOST_ENTRIES + 51):
            said = e.AssistantEvent(text=f"{number}", message_id=f"m{number}", subagent_id="x", subagent_step_id="a")
            run.says(said)
        async with listening_to(client, run="plan-1", step="a") as page:
            await page.until("step", f"entry:x:{MOST_ENTRIES + 50}")
            assert (await page.until("step", "agent:x"))["first"] == 51
        for before, limit, numbers in ((31, 10, range(21, 31)), (53, 4, range(49, 53)), (3, 10, range(1, 3))):
            reply = await client.get("/api/runs/plan-1/steps/a", params={"before": before, "limit": limit})
            assert [(one["n"], one["text"]) for one in reply.json()["entries"]] == [(one, f"{one}") for one in numbers]


async def test_ids_with_slashes_and_names_of_the_language_are_served(vibe_home: Path) -> None:
    steps = tuple(e.StepOutline(id=name, title="t", mode="code") for name in ("x/../y", "__proto__", 'q" :?#%2F'))
    async with running(vibe_home) as run, served(vibe_home) as client:
        run.says(e.PlanStartedEvent(goal="<b>\u202e\u2028\0", steps=steps))
        async with listening_to(client, run="plan-1") as page:
            await page.until("run", "step:__proto__")
        for address in ("x%2F..%2Fy", "__proto__", "q%22%20%3A%3F%23%252F"):
            reply = await client.get(httpx.URL(f"{client.base_url}/api/runs/plan-1/steps/{address}"))
            assert reply.json()["step"]["title"] == "t", address


async def test_a_conversation_has_its_transcript_without_a_step(vibe_home: Path) -> None:
    async with running(vibe_home, plan_id="") as run, served(vibe_home) as client:
        run.says(e.PromptStartedEvent(prompt_id="1"), e.UserMessageEvent(text="Rename it"))
        async with listening_to(client, run="one") as page:
            await page.until("run", "head", kind="conversation")
            await page.until("step", "entry:one:1", text="Rename it")
        assert (await client.get("/api/runs/one/steps/")).json()["entries"][0]["text"] == "Rename it"
        assert (await client.get("/api/runs/one/steps/none")).status_code == 404


async def test_steps_that_are_asked_for_and_left_are_not_kept_up_to_date(vibe_home: Path) -> None:
    names = [f"s{number}" for number in range(3 * MOST_STEPS)]
    steps = tuple(e.StepOutline(id=name, title=name, mode="code") for name in names)
    async with running(vibe_home) as run, create_task_group() as tasks:
        run.says(e.PlanStartedEvent(goal="Tidy up", steps=steps))
        desk = PageDesk(Board(vibe_home, None))
        tasks.start_soon(desk.keep)
        tables = await desk.opened("plan-1")
        page = await desk.page("plan-1", names[0], "", may_act=False)
        for name in names:
            tables.open_step(name)
        desk.tick()
        assert [*tables.steps] == [names[0], *names[1 - MOST_STEPS :]]
        desk.leave(page)
        tasks.cancel_scope.cancel()


async def test_a_page_of_a_run_that_was_let_go_comes_back_once_it_goes_on(vibe_home: Path) -> None:
    names = [f"plan-{number}" for number in range(MOST_ENDED + 2)]
    for name in names:
        async with running(vibe_home, f"old-{name}", name) as run:
            run.begins()
    async with create_task_group() as tasks:
        desk = PageDesk(Board(vibe_home, None))
        tasks.start_soon(desk.keep)
        page = await desk.page(names[0], "", "", may_act=False)
        for name in names[1:]:
            await desk.opened(name)
        assert names[0] not in desk.views
        assert not page.scope.cancel_called
        async with running(vibe_home, "new", names[0]):
            await to_thread.run_sync(until, lambda: page.scope.cancel_called)
        desk.leave(page)
        tasks.cancel_scope.cancel()


async def test_who_joins_late_while_much_is_said_misses_nothing_and_hears_nothing_twice(vibe_home: Path) -> None:
    numbers = iter(range(6_000))
    async with one_run(vibe_home) as (run, client), create_task_group() as tasks:

        def say(count: int) -> None:
            for number in islice(numbers, count):
                run.agent_says("a", e.AssistantDeltaEvent(message_id=f"m{number // 500}", text=f"{number} "))

        async def go_on() -> None:
            for _ in range(300):
                say(10)
                await sleep(0.01)
            run.moves("a", "completed", "in_progress")

        say(3_000)
        tasks.start_soon(go_on)
        async with listening_to(client, run="plan-1", step="a") as page:
            await page.until("run", "step:a", status="completed")
        entries = sorted((row for key, row in page.tables["step"].items() if "entry:" in key), key=itemgetter("n"))
        assert "".join(row["text"] for row in entries).split() == [f"{number}" for number in range(6_000)]


async def test_no_page_listens_by_a_request_for_heads(vibe_home: Path) -> None:
    async with served(vibe_home) as client:
        for _ in range(MOST_PAGES + 1):
            assert (await client.head("/api/stream")).status_code == 404


async def test_an_ended_run_is_folded_when_it_is_opened(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.begins()
        run.moves("a", "completed")
    async with served(vibe_home) as client:
        async with listening_to(client) as page:
            row = await page.until("board", "plan-1")
            assert "done" not in row
        shown = (await client.get("/api/runs/plan-1")).json()
        assert (shown["head"]["done"], shown["steps"]["a"]["status"]) == (1, "completed")


async def test_a_run_that_began_and_ended_unseen_is_served_at_once(vibe_home: Path) -> None:
    async with served(vibe_home) as client:
        assert (await client.get("/api/runs")).json()["runs"] == {}
        async with running(vibe_home) as run:
            run.begins()
            run.says(e.PlanCompletedEvent(status="completed", counts={}, duration_s=1.0, outcome="completed"))
        assert (await client.get("/api/runs/plan-1")).json()["head"]["status"] == "completed"


async def test_a_run_whose_last_events_are_lost_says_so(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.begins()
        run.moves("a", "completed")
        journal = Path(run.entry.journal)
    await to_thread.run_sync(lambda: journal.write_bytes(journal.read_bytes()[:-9]))
    async with served(vibe_home) as client:
        shown = (await client.get("/api/runs/plan-1")).json()
        assert "event 2 is lost" in shown["head"]["problem"]
        assert shown["steps"]["a"]["status"] == "pending"


async def test_a_run_that_lost_events_in_between_says_so_and_shows_the_others(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.moves("a", "completed", "in_progress")
        journal = Path(run.entry.journal)
    lines = await to_thread.run_sync(lambda: journal.read_bytes().splitlines(keepends=True))
    await to_thread.run_sync(lambda: journal.write_bytes(lines[0] + lines[2]))
    async with served(vibe_home) as client:
        shown = (await client.get("/api/runs/plan-1")).json()
        assert "event 2 is lost" in shown["head"]["problem"]
        assert shown["steps"]["a"]["status"] == "completed"


async def test_a_command_without_a_reply_in_time_can_be_repeated_until_there_is_one(
    vibe_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [CommandOutcome(state="late", message="it has not answered for 15 s")]

    async def send_slowly(run: KnownRun, command: RunCommand) -> CommandOutcome:
        outcome = await send(run, command)
        return late.pop() if late else outcome

    monkeypatch.setattr("vibe.dashboard.acting.send", send_slowly)
    async with one_run(vibe_home) as (run, client):
        body = {"type": "pause", "command_id": "c1"}
        replies = [await client.post("/api/runs/plan-1/commands", json=body) for _ in range(3)]

    assert [reply.status_code for reply in replies] == [504, 200, 200]
    assert len(run.taken) == 1, "it was carried out all the same, and once"


async def test_an_answer_reaches_the_run_and_its_card_goes_on_every_page(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client), AsyncExitStack() as stack:
        asks(run)
        pages = [await stack.enter_async_context(listening_to(client, run="plan-1")) for _ in range(2)]
        for page in pages:
            await page.until("run", "request:request-1")
        body = {"allow": True, "scope": "session", "command_id": "c1"}
        reply = await client.post("/api/requests/request-1", json=body)
        assert (reply.status_code, reply.json()) == (200, {"message": MESSAGE})
        taken = Approve(request_id="request-1", allow=True, scope="session", by="page", command_id="c1")
        assert [structs.replace(one, token="") for one in run.taken] == [taken]
        assert (await client.post("/api/requests/request-1", json=body)).status_code == 200  # the same again
        other = await client.post("/api/requests/request-1", json={"allow": False})
        assert (other.status_code, other.json()["answer"]) == (409, True)
        assert len(run.taken) == 1
        run.says(e.ApprovalDecisionEvent(request_id="request-1", decision="allow", by="page"))
        for page in pages:
            await page.until_gone("run", "request:request-1")
            assert (await page.until("run", "answered:request-1"))["by"] == "page"
        late = await client.post("/api/requests/request-1", json={"allow": False})
        assert (late.status_code, late.json()["by"], late.json()["answer"]) == (409, "page", "allow")


async def test_who_declined_a_question_is_told(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client), listening_to(client, run="plan-1") as page:
        run.agent_says("a", e.QuestionEvent(request_id="q", questions=({"question": "Which?", "options": []},)))
        await page.until("run", "request:q")
        assert (await client.post("/api/requests/q", json={"answers": []})).status_code == 200
        early = (await client.post("/api/requests/q", json={"answers": [["A"]]})).json()
        run.agent_says("a", e.AnswerEvent(request_id="q", cancelled=True, by="page"))
        row = await page.until("run", "answered:q")
        late = (await client.post("/api/requests/q", json={"answers": [["A"]]})).json()
        assert {(one["by"], one["answer"]) for one in (row, early, late)} == {("page", "declined")}


async def test_of_two_answers_at_once_one_counts_and_the_other_learns_whose(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client):
        asks(run)
        async with listening_to(client, run="plan-1") as page:
            await page.until("run", "request:request-1")

        replies: list[httpx.Response] = []

        async def click() -> None:
            replies.append(await client.post("/api/requests/request-1", json={"allow": True}))

        async with create_task_group() as tasks:
            tasks.start_soon(click)
            tasks.start_soon(click)
        assert sorted(reply.status_code for reply in replies) == [200, 409]
        refused = max(replies, key=lambda reply: reply.status_code).json()
        assert (refused["error"], refused["by"]) == ("answered", "page")


async def test_commands_and_comments_are_sent_once_in_the_name_of_the_page(vibe_home: Path) -> None:
    async with one_run(vibe_home) as (run, client):
        async with listening_to(client, run="plan-1") as page:
            await page.until("run", "step:a", status="in_progress")
        pause = {"type": "pause", "by": "someone", "token": "x", "command_id": "p"}
        for _ in range(2):
            reply = await client.post("/api/runs/plan-1/commands", json=pause)
            assert reply.status_code == 200
        comment = {"path": "a.py", "line": 3, "to": 4, "quote": "x = 1\ny = 2", "text": "Why?"}
        for step, more in (("a", {}), ("b", {"retry": True})):
            body = {"comments": [comment], **more}
            reply = await client.post(f"/api/runs/plan-1/steps/{step}/comments", json=body)
            assert reply.status_code == 200
        text = "Review comments (1):\n\na.py:3-4\n> x = 1\n> y = 2\nWhy?"
        paused, steered, retried = run.taken
        assert isinstance(paused, Pause)
        assert paused.by == "page"
        assert isinstance(steered, Steer)
        assert (steered.step_id, steered.text, steered.by) == ("a", text, "page")
        assert isinstance(retried, Act)
        assert (retried.step_id, retried.action, retried.message) == ("b", "retry", text)


@pytest.mark.parametrize(
    ("address", "body", "status", "error"),
    [
        ("/api/runs/plan-1/commands", {"type": "approve", "request_id": "request-1", "allow": True}, 400, "invalid"),
        ("/api/runs/plan-1/commands", {"type": "ping"}, 400, "invalid"),
        ("/api/runs/plan-1/commands", {}, 400, "invalid"),
        ("/api/runs/plan-1/commands", {"type": "pause", "surprise": 1}, 400, "invalid"),
        ("/api/runs/other/commands", {"type": "pause"}, 404, "unknown"),
        ("/api/requests/request-1", {"allow": "yes"}, 400, "invalid"),
        ("/api/requests/request-1", {"selections": ["x"]}, 400, "invalid"),
        ("/api/requests/nothing", {"allow": True}, 404, "unknown"),
        ("/api/runs/plan-1/steps/z/comments", {"comments": [{"path": "a", "line": 1, "text": "t"}]}, 404, "unknown"),
        ("/api/runs/plan-1/steps/a/comments", {"comments": []}, 400, "invalid"),
        ("/api/runs/plan-1/steps/a/comments", {"comments": [{"path": "a", "line": 0, "text": "t"}]}, 400, "invalid"),
        ("/api/elsewhere", {}, 404, "unknown"),
    ],
)
async def test_what_can_not_be_meant_reaches_no_run(
    vibe_home: Path, address: str, body: dict[str, Any], status: int, error: str
) -> None:
    async with one_run(vibe_home) as (run, client):
        asks(run)
        async with listening_to(client, run="plan-1") as page:
            await page.until("run", "request:request-1")
        reply = await client.post(address, json=body)
        assert (reply.status_code, reply.json()["error"]) == (status, error)
        assert run.taken == []


async def test_bodies_that_are_no_json_too_large_or_deep_are_refused(vibe_home: Path) -> None:
    address = "/api/requests/request-1"
    kind = {"content-type": "application/json"}
    async with served(vibe_home) as client:
        form = await client.post(address, data={"allow": "true"})
        assert form.status_code == 415
        for content, status in (
            (b"{}" + b" " * MOST_BYTES, 413),
            (b"[" * 100_000, 400),
            (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, 400),
            (b"not json", 400),
            (b"[1]", 400),
            (b'{"allow": "\xff"}', 400),
            (b"", 400),
        ):
            reply = await client.post(address, content=content, headers=kind)
            assert reply.status_code == status, content[:20]
        refused = await client.put(address, json={})
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")


@pytest.mark.parametrize("control", [True, False])
async def test_who_may_only_look_changes_nothing(vibe_home: Path, *, control: bool) -> None:
    async with one_run(vibe_home, control=control) as (run, client):
        client.headers["authorization"] = f"Bearer {VIEW}"
        for address in ("/api/requests/x", "/api/runs/plan-1/commands", "/api/runs/plan-1/steps/a/comments"):
            reply = await client.post(address, json={"type": "cancel"})
            assert (reply.status_code, reply.json()["error"]) == (403, "control")
        assert run.taken == []
        assert (await client.get("/api/runs")).json()["control"] is False
        async with listening_to(client) as page:
            await page.read()
            await page.read()
            assert page.now["control"] is False


async def test_a_run_that_died_between_click_and_answer_has_ended(vibe_home: Path) -> None:
    async with served(vibe_home) as client:
        async with running(vibe_home) as run:
            run.begins()
            asks(run)
            async with listening_to(client) as page:
                await page.until("board", "plan-1", requests=1)
        reply = await client.post("/api/requests/request-1", json={"allow": True})
        assert (reply.status_code, reply.json()["error"]) in {(410, "ended"), (404, "unknown")}
        reply = await client.post("/api/runs/plan-1/commands", json={"type": "pause"})
        assert (reply.status_code, reply.json()["error"]) == (410, "ended")


async def test_more_pages_than_allowed_are_refused_until_one_leaves(vibe_home: Path) -> None:
    async with served(vibe_home) as client, AsyncExitStack() as stack:
        limits = httpx.Limits(max_connections=MOST_PAGES + 8)
        many = httpx.AsyncClient(base_url=client.base_url, headers=client.headers, limits=limits, timeout=PATIENCE_S)
        await stack.enter_async_context(many)
        pages = [await stack.enter_async_context(AsyncExitStack()) for _ in range(MOST_PAGES)]
        heard = [await page.enter_async_context(listening_to(many)) for page in pages]
        for page in heard:
            await page.read()
        refused = await many.get("/api/stream")
        assert (refused.status_code, refused.json()["error"]) == (429, "pages")
        await pages[0].aclose()
        with fail_after(PATIENCE_S):
            while True:
                async with many.stream("GET", "/api/stream") as reply:
                    if reply.status_code == 200:
                        break


async def test_a_page_that_never_reads_is_dropped() -> None:
    page = WebPage((RowTable("board"),))
    for _ in range(MOST_BEHIND):
        page.hears(b"")
    assert not page.scope.cancel_called
    page.hears(b"")
    assert page.scope.cancel_called
    page.close()


async def test_a_text_is_found_in_runs_that_live_and_in_journals_of_those_that_ended(vibe_home: Path) -> None:
    words = 'Straße "quoted" and\nNeedle in a line\nmore'
    async with running(vibe_home, "old", "plan-old") as run:
        run.says(e.PlanStartedEvent(goal="Old", steps=STEPS))
        run.says(e.AssistantEvent(text=words, message_id="m", subagent_id="one", subagent_step_id="a"))
    async with one_run(vibe_home) as (run, client):
        run.says(e.AssistantEvent(text=words, message_id="m", subagent_id="agent", subagent_step_id="a"))
        async with listening_to(client, run="plan-1", step="a") as page:
            await page.until("step", "entry:agent:1")
        found = (await client.get("/api/search", params={"q": "needle IN"})).json()
        assert found["more"] is False
        places = {hit["run"]: (hit["step"], hit["entry"], hit["line"]) for hit in found["hits"]}
        assert places == {
            "plan-1": ("a", "agent:1", "Needle in a line"),
            "plan-old": ("a", "", "Needle in a line"),
        }
        quoted = (await client.get("/api/search", params={"q": 'STRASSE "quoted', "run": "plan-old"})).json()
        assert [hit["run"] for hit in quoted["hits"]] == ["plan-old"]
        named = (await client.get("/api/search", params={"q": "tidy"})).json()
        assert [hit["run"] for hit in named["hits"]] == ["plan-1"]
        for query in ({}, {"q": " "}, {"q": "x" * 201}):
            assert (await client.get("/api/search", params=query)).status_code == 400
        assert (await client.get("/api/search", params={"q": "x", "run": "nothing"})).status_code == 404


async def test_a_search_makes_no_more_of_what_it_finds_than_it_answers(
    vibe_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def excerpt(text: str, _: str) -> str:
        made.append(text)
        return text

    monkeypatch.setattr(search, "excerpt", excerpt)
    async with one_run(vibe_home) as (run, client):
        for number in range(MOST_ENTRIES):
            run.agent_says("a", e.AssistantEvent(text=f"needle {number}", message_id=f"m{number}"))
        async with listening_to(client, run="plan-1", step="a") as page:
            await page.until("step", f"entry:a:{MOST_ENTRIES}")
        found = (await client.get("/api/search", params={"q": "needle"})).json()
    assert (len(found["hits"]), found["more"], len(made)) == (MOST_HITS, True, MOST_HITS + 1)


def test_a_search_goes_on_after_events_that_tell_their_time_otherwise(tmp_path: Path) -> None:
    times: tuple[Any, ...] = ("soon", [1], {}, 10**400, None, 2.5)
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(f"{json.dumps({'text': 'needle', 'ts': ts})}\n" for ts in times), encoding="utf-8")
    entry = Entry(
        source="s", events="", replay="", control="", journal=str(journal), pid=1, started=1.0, info=RunInfo(cwd="/")
    )
    hits, _ = found_in_journals([KnownRun(key="s", entries=(entry,))], "needle")
    assert [hit.ts for hit in hits] == [0.0] * 5 + [2.5]


def test_a_search_ends_in_time_and_says_that_there_is_more(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    line = json.dumps({"type": "user.message", "text": "needle", "ts": 1.0})
    journal.write_text("torn{\n" + f"{line}\n" * (MOST_HITS + 5), encoding="utf-8")
    info = RunInfo(cwd="/work")
    entry = Entry(source="s", events="", replay="", control="", journal=str(journal), pid=1, started=1.0, info=info)
    gone = structs.replace(entry, journal=str(tmp_path / "gone"))
    hits, more = found_in_journals([KnownRun(key="s", entries=(gone, entry))], "needle")
    assert (len(hits), more) == (MOST_HITS, True)
    assert found_in_journals([KnownRun(key="s", entries=(entry,))], "needle", seconds=0.0) == ([], True)
