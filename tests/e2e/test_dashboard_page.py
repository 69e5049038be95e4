"""The dashboard's page in Chromium: it follows real runs, answers their requests, and shows their work.

Covers ``vibe.dashboard``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import to_thread
from msgspec import structs

from ipc import events as e
from ipc.commands import AnswerQuestion, Approve, GivePrompt, Reply, Steer
from ipc.registry import Registry
from tests.e2e.chromium import OTHER_NAME, PROGRAM, Browser, Page, chromium
from tests.e2e.conftest import EXAMPLES, REPOSITORY, VibeCommand, command_step
from tests.fakes.runs import ASKED, STEPS as STEPS_OF_TWO, running
from tests.fakes.waiting import until
from vibe.dashboard.stream import MOST_PAGES
from vibe.view.agent_view import MOST_ENTRIES

WritePlan = Callable[..., str]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")

STEPS_A_LAYER = 417
MOST_DRAWN_S = 1.0
"""The most processor time of the browser from the start of the load until the page is drawn, in seconds."""
MOST_TIMES_SLOWER = 20
"""The longest time to draw the plan as it was, in times of drawing it as it is."""
SHOWN_GOAL = "Give textkit slugify() and shorten(), each tested and documented, then publish it."
GOAL = "Give textkit slugify() <img src=x onerror=alert(1)> \u202e and publish it"
HTML = "<b>bold</b><script>alert(1)</script>"
QUESTION = {"question": "How strict may the rule be?", "options": [{"label": "ASCII only"}, {"label": "Any letter"}]}
WHERE = {
    "id": "where",
    "question": "Where should it go?",
    "options": [{"id": "staging", "label": "Staging first"}, {"id": "registry", "label": "The registry"}],
}
LIST_LINE = "document.querySelector('#dag [data-step=fix] .ln')?.textContent"
LIST_ITEMS = "[...document.querySelectorAll('#step .line')].map((one) => one.dataset.line)"
WORDS = ("ASCII only", "Once", "Staging first")
"""The buttons that answer the run's requests."""
CHECK = "test -e mended || { touch mended; echo red; exit 1; }"


def agent(step_id: str, title: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": step_id, "title": title, "mode": "code", "prompt": "Go.", "depends_on": list(after), **fields}


STEPS = (
    command_step("survey", "echo looked"),
    agent("slugify", f"Write slugify() {HTML}", "survey", verify=[CHECK]),
    agent("audit", "Audit the rule", "survey", mode="research"),
    agent("publish", "Publish it", "survey"),
    command_step("mirror", "exit 7", depends_on=["survey"], on_failure="continue"),
    command_step(
        "stage", "echo staged > staged.txt", depends_on=["audit"], decision="where", when={"where": ["staging"]}
    ),
    command_step(
        "ship", "echo shipped > shipped.txt", depends_on=["audit"], decision="where", when={"where": ["registry"]}
    ),
    agent("shorten", "Write shorten()", "survey", workspace="worktree", writes=["short.py"]),
    agent("count", "Write count()", "survey", workspace="worktree", writes=["count.py"]),
    command_step("compile", "python3 -m compileall -q short.py count.py", depends_on=["shorten", "count"]),
    command_step("lint", "test -s short.py", depends_on=["shorten"]),
    command_step("measure", "wc -l count.py", depends_on=["count"]),
    command_step("pack", "ls short.py count.py", depends_on=["compile", "lint", "measure"]),
    command_step("notes", "cat staged.txt", depends_on=["slugify", "stage", "ship", "publish", "mirror", "pack"]),
)
IN_TURN = tuple({**step, "depends_on": ["audit"]} if step["id"] == "publish" else step for step in STEPS)
"""The same steps; the request of one comes after the answer to the other's."""
WRITE = {
    "name": "write_file",
    "arguments": {"path": "slugs.py", "content": "import re\n\n\ndef slugify():\n    pass\n"},
}
NOTE = {"name": "write_file", "arguments": {"path": "news.md", "content": "first line\nsecond line\n"}}
SHORT = {"name": "write_file", "arguments": {"path": "short.py", "content": "def shorten(): ...\n"}}
COUNT = {"name": "write_file", "arguments": {"path": "count.py", "content": "def count(): ...\n"}}
SHELL = {"name": "bash", "arguments": {"command": "touch published"}}
ASK = {"name": "ask_user_question", "arguments": {"questions": [QUESTION]}}
SCRIPT = {
    "agents": {
        "slugify": {"turns": [{"text": HTML, "tool_calls": [WRITE]}, {"text": "written"}, {"text": "mended"}]},
        "audit": {"turns": [{"tool_calls": [ASK]}, {"text": "strict"}]},
        "publish": {"turns": [{"tool_calls": [NOTE]}, {"tool_calls": [SHELL]}, {"text": "published"}]},
        "shorten": {"turns": [{"tool_calls": [SHORT]}, {"text": "written"}]},
        "count": {"turns": [{"tool_calls": [COUNT]}, {"text": "written"}]},
    }
}

SHOWN_AGENTS = {
    **SCRIPT["agents"],
    "slugify": {
        "turns": [
            {"text": "The function first.", "tool_calls": [WRITE]},
            {"text": "slugify() is written; its test comes next."},
            {"text": "An accent was left in; now they are removed before the case is lowered."},
        ]
    },
    "*": {"turns": [{"text": "It is done, and every test passes."}]},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def links(vibe: VibeCommand) -> dict[str, Any]:
    """Serve a dashboard that may act, and return its links."""
    return served(vibe, "--control", "--name", "ana")


def served(vibe: VibeCommand, *words: str) -> dict[str, Any]:
    process = vibe.start("dashboard", "--web", "--output", "json", *words)
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


async def opened(browser: Browser, vibe: VibeCommand, *words: str) -> Page:
    """Open a page of a separate dashboard."""
    return await to_thread.run_sync(browser.page, (await to_thread.run_sync(served, vibe, *words))["url"])


def started(
    vibe: VibeCommand, write_plan: WritePlan, steps: Sequence[dict[str, Any]] = STEPS
) -> subprocess.Popen[bytes]:
    vibe.replay(SCRIPT)
    plan = write_plan(*steps, goal=GOAL, decisions=[WHERE])
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "start")):
        subprocess.run(("git", *words), cwd=vibe.workdir, check=True)
    return vibe.start("plan", "run", plan, "--wait", "--approve", "edits")


def followed(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> tuple[subprocess.Popen[bytes], Page]:
    """Start a run, and open a page of the usual width that shows it."""
    run = started(vibe, write_plan)
    page = browser.page()
    page.look(1200, 860)
    page.open(links["url"])
    return run, page


def status(step_id: str, *statuses: str) -> str:
    return " || ".join(f"document.querySelector('#dag [data-step={step_id}][data-status={one}]')" for one in statuses)


def card(kind: str) -> str:
    return f"[...document.querySelectorAll('article.card')].find((one) => one.textContent.startsWith('{kind}'))"


def is_quiet(page: Page) -> None:
    """Check that the console is empty, and nothing but code can be scrolled sideways."""
    assert page.run("document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth")
    wide = page.run(
        "[...document.querySelectorAll('body *')].filter((one) => one.scrollWidth > one.clientWidth + 1 &&"
        "['auto', 'scroll'].includes(getComputedStyle(one).overflowX) && !one.matches('#graph, pre, .df')"
        "&& one.clientWidth).map((one) => one.className || one.id)"
    )
    assert wide == []
    assert page.said == []


def by_mouse(page: Page, kind: str, words: str) -> None:
    page.wait(card(kind))
    page.run(f"{card(kind)}.dataset.mine = '{kind}'")
    page.wait(f"performance.now() - {card(kind)}.since > 500")
    button = f"[...{card(kind)}.querySelectorAll('.acts button')].find((one) => one.textContent.startsWith('{words}'))"
    page.run(f"{button}.dataset.mine = '{kind}'")
    page.click(f"button[data-mine={kind}]")
    page.wait(f"!({card(kind)})")


def by_key(page: Page, kind: str, key: str) -> None:
    page.wait(card(kind))
    page.wait(f"performance.now() - {card(kind)}.since > 500")
    for _ in range(3):
        page.press("w")
        if page.run(f"document.activeElement === {card(kind)}"):
            break
    page.press(key)
    page.wait(f"!({card(kind)})")


def answers(page: Page, answer: Callable[[Page, str, str], None], *words: str) -> None:
    """Answer all requests of the run, one after the other."""
    for kind, word in zip(("Question", "Permission", "Decision"), words, strict=True):
        answer(page, kind, word)


def asked_and_answered(page: Page, url: str) -> None:
    """Open a page of the usual width, and answer all requests of the run with the mouse."""
    page.look(1200, 860)
    page.open(url)
    answers(page, by_mouse, *WORDS)
    page.wait(status("notes", "completed"))


def test_a_page_of_which_a_file_was_lost_on_its_way_is_loaded_again(browser: Browser, links: dict[str, Any]) -> None:
    page = browser.page()
    page.call("Network.enable")
    page.call("Network.setBlockedURLs", urls=["*/inbox.js"])
    page.open(links["url"])
    page.wait("performance.getEntriesByName(new URL('inbox.js', location.href).href).length")
    page.call("Network.setBlockedURLs", urls=[])
    page.wait("document.querySelector('#runlist .empty')")


def test_all_that_a_run_asks_is_answered_with_the_mouse(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run = started(vibe, write_plan)
    page = browser.page()
    asked_and_answered(page, links["url"])

    assert run.wait(60) == 0
    assert (vibe.workdir / "published").exists()
    assert (vibe.workdir / "staged.txt").exists()
    page.wait("document.querySelector('#head [data-figure=steps] b').textContent === '12 / 14'")
    assert page.wait("document.querySelector('#head [data-figure=checks] b').textContent").startswith("1 ✓")
    figures = page.run("[...document.querySelectorAll('#head [data-figure]')].map((one) => one.dataset.figure)")
    assert figures == ["steps", "checks", "tokens", "cost", "time"]
    page.click("#dag [data-step=slugify]")
    page.wait("document.querySelector('#step [data-entry]')")
    text = page.wait("document.querySelector('#step .body').textContent.includes('check') && document.body.innerText")
    assert HTML in text
    assert "<U+202E>" in text
    assert page.run("document.querySelectorAll('img, body script').length") == 0
    is_quiet(page)


def test_all_that_a_run_asks_is_answered_by_keys_alone(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run = started(vibe, write_plan)
    page = browser.page()
    page.look(2000, 1200, dark=True)
    page.open(links["url"])

    answers(page, by_key, "2", "1", "1")
    page.wait(status("notes", "completed"))

    assert run.wait(60) == 0
    for key, shown in {"t": "timeline", "c": "changes", "l": "log", "g": "graph"}.items():
        page.press(key)
        page.wait(f"!document.querySelector('#{shown}').hidden && document.querySelector('#{shown}').childElementCount")
    page.press("j", "j")
    page.wait("document.querySelector('#step h2').textContent.startsWith('Write slugify')")
    page.press("?")
    page.wait("document.querySelector('#keys').open")
    is_quiet(page)


def test_a_phone_has_a_dock_and_hears_who_answered_elsewhere(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    started(vibe, write_plan, IN_TURN)
    page = browser.page()
    page.look(400, 860)
    page.open(links["url"])

    page.wait("document.querySelector('#dock .badge')?.textContent === '1'")
    page.wait("document.querySelector('#outline [data-line=slugify] .done')")
    is_quiet(page)
    page.click("#dock [data-pane=inbox]")
    request = page.wait(f"{card('Question')}.dataset.request")
    low = page.run(
        "[...document.querySelectorAll('button')].filter((one) => one.getClientRects().length &&"
        "one.getBoundingClientRect().height < 44).map((one) => one.textContent)"
    )
    assert low == []
    [plan] = vibe.plan_ids()
    assert vibe("events", "answer", plan, request, "2", "--by", "ben").code == 0

    page.wait(f"!({card('Question')})", 1)
    assert "Any letter, by ben" in page.wait("document.querySelector('.settled').textContent")
    page.wait("!document.querySelector('.settled')")
    for pane in ("runs", "step", "run"):
        page.click(f"#dock [data-pane={pane}]")
        is_quiet(page)


def test_a_page_that_only_looks_says_so_and_changes_nothing(
    vibe: VibeCommand, write_plan: WritePlan, browser: Browser
) -> None:
    started(vibe, write_plan)
    page = browser.page()
    page.look(1200, 860)
    page.open(served(vibe)["url"])

    page.wait(card("Question"))
    page.press("w", "1")
    buttons = page.run("[...document.querySelectorAll('.acts button')].map((one) => one.disabled)")
    assert buttons
    assert all(buttons)
    assert "--control" in page.run(f"{card('Question')}.textContent")
    assert (
        page.run(
            "fetch('/api/requests/x', { method: 'POST', body: '{}', headers: { 'Content-Type':"
            "'application/json', Authorization: 'Bearer ' + sessionStorage.vibe } }).then((r) => r.status)"
        )
        == 403
    )
    assert page.run(f"!!({card('Question')})")


def test_at_an_earlier_time_steps_figures_and_requests_are_those_of_then(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run = started(vibe, write_plan)
    page = browser.page()
    asked_and_answered(page, links["url"])
    run.communicate(timeout=60)
    events = vibe("events", "tail", *vibe.plan_ids(), "--from", "1", "--output", "json").lines
    first, last = events[0]["ts"], events[-1]["ts"]

    used = min(event["ts"] for event in events if event["type"] == "usage")
    page.run(f"import('/replay.js').then((replay) => replay.seek({used - 0.2}))")
    page.wait("document.querySelector('#head .pill').textContent === 'replay'")
    assert page.run("document.querySelector('#head [data-figure=tokens] b').textContent") == "0"
    for part in range(1, 10):
        at = first + (last - first) * part / 10
        while any(abs(event["ts"] - at) < 0.01 for event in events):  # the page rounds to hundredths
            at += 0.01
        page.run(f"import('/replay.js').then((replay) => replay.seek({at}))")
        page.wait("document.querySelector('#head .pill').textContent === 'replay'")
        before = [event for event in events if event["ts"] <= at]
        known = {step["id"]: "pending" for step in STEPS}
        known |= {event["step_id"]: event["status"] for event in before if event["type"] == "plan.step"}
        shown = page.run(
            "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(Object.fromEntries("
            "[...document.querySelectorAll('#dag [data-step]')].map((one) => [one.dataset.step, one.dataset.status])))))) "
        )
        assert {name: one.replace("blocked", "pending") for name, one in shown.items()} == {
            name: one.replace("blocked", "pending") for name, one in known.items()
        }
        done = sum(one == "completed" for one in known.values())
        assert page.run("document.querySelector('#head [data-figure=steps] b').textContent") == f"{done} / {len(STEPS)}"
        asked = {event["request_id"] for event in before if event["type"] in {"approval.requested", "question.asked"}}
        asked -= {event["request_id"] for event in before if event["type"] in {"approval.decided", "question.answered"}}
        cards = page.run(
            "[...document.querySelectorAll('.card')].filter((one) => !one.querySelector('form'))"
            ".map((one) => one.dataset.request)"
        )
        assert set(cards) == asked
        assert page.run("[...document.querySelectorAll('.card button.go')].every((one) => one.disabled)")
    page.press("Escape")
    page.wait("document.querySelector('#head .pill').textContent === 'completed'")
    page.press(" ")
    page.wait("document.querySelector('#head .pill').textContent === 'replay'")
    page.press(" ")
    page.press(",", "Escape")
    page.wait("document.querySelector('#head .pill').textContent === 'completed'")
    is_quiet(page)


async def test_five_thousand_steps_are_drawn_soon_and_follow_the_run(vibe: VibeCommand, browser: Browser) -> None:
    layers = 12
    steps = tuple(
        e.StepOutline(
            id=f"s{n}",
            title=f"Module {n}",
            mode="code",
            depends_on=(f"s{n - STEPS_A_LAYER}",) if n >= STEPS_A_LAYER else (),
        )
        for n in range(layers * STEPS_A_LAYER)
    )

    def drawn(url: str) -> float:
        page = browser.page()
        page.look(1600, 1000)
        page.call("Performance.enable")
        page.open(url)
        page.wait(f"document.querySelectorAll('#dag .cell[data-status]').length === {len(steps)}")
        assert page.run("document.querySelector('#head [data-figure=checks] b').textContent") == "\u2013"
        assert page.said == []
        measured = page.call("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in measured if each["name"] == "ProcessTime")

    async with running(vibe.home) as run:
        run.says(e.PlanStartedEvent(goal="Move them all", steps=steps))
        for n in range(500):
            run.moves(f"s{n}", "in_progress")
        url = (await to_thread.run_sync(served, vibe, "plan-1"))["url"]
        times = [await to_thread.run_sync(drawn, url) for _ in range(3)]
        page = await to_thread.run_sync(browser.page, url)
        await to_thread.run_sync(
            page.wait, "document.querySelector('#dag .cell[data-step=s7][data-status=in_progress]')"
        )
        run.moves("s7", "completed", "in_progress")
        await to_thread.run_sync(
            page.wait, "document.querySelector('#dag .cell[data-step=s7][data-status=completed]')", 2
        )
        looks = (
            "(async () => { const time = (does) => new Promise((done) => { const from = performance.now(); does();"
            "requestAnimationFrame(() => done(performance.now() - from)) });"
            "const now = await time(() => dispatchEvent(new Event('resize')));"
            "const key = new KeyboardEvent('keydown', { key: ',', bubbles: true });"
            "return await time(() => document.body.dispatchEvent(key)) / now })()"
        )
        assert await to_thread.run_sync(page.run, looks) < MOST_TIMES_SLOWER
    assert min(times) < MOST_DRAWN_S


async def test_a_box_of_many_steps_says_within_its_width_what_they_do(vibe: VibeCommand, browser: Browser) -> None:
    steps = tuple(
        e.StepOutline(id=f"s{n}", title="Go", mode="code", depends_on=(f"s{n - 30}",) if n >= 30 else ())
        for n in range(120)
    )
    groups = "[...document.querySelectorAll('#dag [data-group]')]"

    def says(page: Page) -> None:
        page.look(1200, 860)
        page.wait(f"{groups}[0]?.textContent === '11/30 1 failed 18 running'")
        assert page.run(f"{groups}[1].textContent") == "0/30"
        assert page.run(f"{groups}[0].ariaLabel") == "30 steps: 11 done, 18 running, 1 failed"
        assert page.run(
            f"{groups}.every((one) => {{ const box = one.querySelector('.box').getBoundingClientRect(), texts ="
            "[...one.querySelectorAll('text')].map((text) => text.getBoundingClientRect()).sort((a, b) => a.x - b.x);"
            "return texts.every(({ right }, at) => right <= (texts[at + 1]?.left ?? box.right)) })"
        )

    async with running(vibe.home) as run:
        run.says(e.PlanStartedEvent(goal="Move them all", steps=steps))
        for n in range(30):
            run.moves(f"s{n}", "in_progress")
        for n in range(12):
            run.moves(f"s{n}", "failed" if n == 9 else "completed", "in_progress")
        page = await opened(browser, vibe, "plan-1")
        await to_thread.run_sync(says, page)


def list_is_opened(page: Page, ids: list[str], top: int) -> None:
    """Open the list of a plan with ``top`` steps in its graph, and go through its items."""
    page.look(1200, 860)
    page.wait(f"{LIST_LINE} === '34/500 2 failed 8 running'")
    assert page.run("document.querySelectorAll('#dag [data-step]').length") == top
    assert page.run("document.querySelectorAll('#dag .fresh').length") == 0
    page.click("#dag [data-step=fix]")
    page.wait(f"{LIST_ITEMS}.length === 60")
    assert page.run(f"{LIST_ITEMS}.slice(0, 10)") == [*ids[34:36], *ids[36:44]]
    page.click("#step .older")
    page.wait(f"{LIST_ITEMS}.length === 110")
    page.press("j")
    page.wait("document.querySelector('#step h2').textContent === 'sum'")
    page.click("#dag [data-step=fix]")
    page.click("#step [data-line=fix-036]")
    page.wait("document.querySelector('#step .row').textContent.includes('on build2:1')")
    page.press("k", "k")
    page.wait("document.querySelector('#step h2').textContent === 'Fix fix-034.py'")
    page.press("j")
    page.wait("document.querySelector('#step h2').textContent === 'Fix fix-035.py'")
    is_quiet(page)
    page.look(400, 860)
    page.click("#step .row .link")
    page.wait(f"{LIST_ITEMS}.length === 60")
    is_quiet(page)
    page.click("#dock [data-pane=run]")
    page.wait("[...document.querySelectorAll('#outline .line')].map((one) => one.dataset.line).join()")
    assert page.run("document.querySelectorAll('#outline .line').length") == top
    assert page.run("document.querySelector('#outline [data-line=last]').textContent") == "lastcode"


async def test_a_list_of_500_is_one_box_and_opened_shows_what_failed_first(vibe: VibeCommand, browser: Browser) -> None:
    ids = [f"fix-{number:03}" for number in range(500)]
    steps = (
        *(e.StepOutline(id=name, title=name, mode="code") for name in ("find", "fix", "sum")),
        e.StepOutline(
            id="last", title="last", mode="code", depends_on=("fix",), order=e.WorkOrder(verify=("make test",))
        ),
    )
    made = tuple(e.ItemOutline(id=name, key=name, title=f"Fix {name}.py") for name in ids)

    async with running(vibe.home) as run:
        run.says(
            e.PlanStartedEvent(goal="Move them all", steps=steps),
            e.PlanUnfoldedEvent(step_id="fix", children=made, items="0"),
        )
        for at, name in enumerate(ids[:44]):
            run.moves(name, "in_progress")
            if at < 36:
                run.moves(name, "completed" if at < 34 else "failed", "in_progress")
        run.agent_says(ids[36], e.PlacementEvent(status="placed", worker="build2:1"))
        page = await opened(browser, vibe, "plan-1")
        await to_thread.run_sync(list_is_opened, page, ids, len(steps))
        run.moves(ids[40], "completed", "in_progress")
        await to_thread.run_sync(page.wait, f"{LIST_LINE} === '35/500 2 failed 7 running'", 2)


def test_a_list_of_the_gallery_is_followed_to_its_end(
    vibe: VibeCommand, links: dict[str, Any], browser: Browser
) -> None:
    run = vibe.start("plan", "run", str(EXAMPLES / "migrate.json"), "--approve", "edits")
    page = browser.page()
    page.look(1200, 860)
    page.open(links["url"])

    page.wait(status("gone", "completed"), 60)
    assert run.wait(60) == 0
    assert page.wait("document.querySelector('#dag [data-step=move] .ln').textContent") == "3/3"
    page.wait("document.querySelector('#head [data-figure=steps] b').textContent === '6 / 6'")
    assert "of 6 checks" in page.run("document.querySelector('#head [data-figure=checks]').textContent")
    page.click("#dag [data-step=move]")
    page.wait("document.querySelector('#step .line b')")
    titles = page.run("[...document.querySelectorAll('#step .line b')].map((one) => one.textContent)")
    assert titles == [f"Move towns/{town}.py" for town in ("paris", "oslo", "lima")]
    page.click("#head a")
    report = browser.opened("report.html")
    report.wait("document.querySelector('iframe[sandbox]:not([sandbox*=allow])')")
    shown = browser.opened("blob:", "iframe")
    assert shown.wait("document.body.innerText").startswith("completed")
    assert report.said == shown.said == []
    page.call("Page.bringToFront")
    page.run("import('/replay.js').then((replay) => [replay.byChange(-1), replay.byChange(-1)])")
    page.wait("document.querySelector('#dag [data-step=gone][data-status=in_progress]')")
    page.wait("document.querySelector('#dag [data-step=move] .ln').textContent === '3/3'")
    page.click("#step .line")
    page.wait("document.querySelectorAll('#step [data-entry]').length > 2")
    is_quiet(page)


def test_pictures_for_the_docs_are_taken_of_a_run_that_asks(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser, tmp_path: Path
) -> None:
    """The pictures are written to docs/images if VIBE_PICTURES is in the environment."""
    folder = tmp_path
    if "VIBE_PICTURES" in os.environ:
        folder, vibe.workdir = REPOSITORY / "docs" / "images", Path.home() / "textkit"
        vibe.workdir.mkdir(exist_ok=True)
    vibe.replay({"agents": SHOWN_AGENTS})
    vibe.start(
        "plan", "run", write_plan(*shown_steps(), goal=SHOWN_GOAL, decisions=[WHERE]), "--wait", "--approve", "edits"
    )
    page = browser.page()
    page.look(1440, 900, motion=False)
    page.open(links["url"])

    page.wait(card("Question"))
    page.wait(card("Decision"))
    page.wait(status("slugify", "completed"))
    page.click("#dag [data-step=slugify]")
    page.wait("document.querySelectorAll('#step [data-entry]').length > 4")
    page.picture(folder / "dashboard-run.png")
    page.look(1200, 800, dark=True, motion=False)
    page.press("t")
    page.wait("document.querySelector('#timeline .tl .wait')")
    page.wait("document.querySelector('#timeline .tl.selected b.failed')")
    page.picture(folder / "dashboard-timeline.png")
    page.click("#timeline .tl[data-key=audit] .name")
    page.wait("document.querySelector('#timeline .tl[data-key=slugify]:not(.selected) b.failed')")
    is_quiet(page)
    assert all((folder / f"dashboard-{name}.png").stat().st_size > 20_000 for name in ("run", "timeline"))


def shown_steps() -> tuple[dict[str, Any], ...]:
    """Return the steps that the pictures show."""
    return (
        command_step("survey", "ls; sleep 0.3", title="Learn how textkit is built"),
        agent("slugify", "Write slugify()", "survey", verify=[CHECK], writes=["slugs.py"]),
        agent("shorten", "Write shorten()", "survey", writes=["short.py"]),
        agent("audit", "Audit the accent rule", "survey", mode="research"),
        command_step(
            "mirror", "sleep 0.2; exit 7", title="Ask the mirror", depends_on=["survey"], on_failure="continue"
        ),
        command_step("lint", "sleep 0.4", title="Compile every module", depends_on=["slugify", "shorten"]),
        command_step("bench", "sleep 0.6", title="Measure 100k words", depends_on=["slugify", "shorten"]),
        agent("docs", "Document both functions", "lint", writes=["README.md"]),
        command_step(
            "stage",
            "true",
            title="Upload to staging",
            depends_on=["lint"],
            decision="where",
            when={"where": ["staging"]},
        ),
        command_step(
            "ship",
            "true",
            title="Publish to the registry",
            depends_on=["lint"],
            decision="where",
            when={"where": ["registry"]},
        ),
        command_step(
            "notes", "true", title="Write the release notes", depends_on=["docs", "stage", "ship", "audit", "bench"]
        ),
    )


def test_a_change_that_any_of_two_steps_may_have_made_is_blamed_on_neither(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    until = "for _ in $(seq 200); do test -e {} && break; sleep 0.05; done; test -e {}"
    plan = write_plan(
        command_step("first", f"{until.format('go', 'go')}; echo new > other.txt; echo > own", writes=["own"]),
        command_step("second", f"touch go; {until.format('own', 'own')}", writes=["go"]),
        agent("third", "Look at it", "second"),
    )
    vibe.replay({"agents": {"third": {"turns": [{"text": "seen"}]}}})
    assert vibe("plan", "run", plan, "--auto-approve").code == 0

    page = browser.page()
    page.look(1200, 860)
    page.open(links["url"])
    for step_id in ("first", "second"):
        page.click(f"#dag [data-step={step_id}]")
        page.click("#step .tabs button:nth-child(2)")
        files = "[...document.querySelectorAll('#step .file header')].map((one) => one.innerText.replace(/\\s+/g, ' '))"
        page.wait(f"{files}.includes('other.txt while first and second ran, added +1 \u22120')")
        assert any(one.startswith("own ") for one in page.run(files)) == (step_id == "first")
    page.look(280, 860)
    page.click("#dock [data-pane=step]")
    right = "{}.getBoundingClientRect().right"
    assert page.run(
        f"[...document.querySelectorAll('#step .file')].every((one) => [...one.querySelectorAll('header *')].every("
        f"(part) => {right.format('part')} <= {right.format('one')}))"
    )


async def test_what_a_revision_added_or_removed_is_marked_until_it_was_looked_at(
    vibe: VibeCommand, browser: Browser
) -> None:
    def is_looked_at(page: Page) -> None:
        page.wait("document.querySelector('#dag [data-step=new].fresh')?.ariaLabel.endsWith('new')")
        assert page.run("document.querySelectorAll('#dag [data-step]').length") == 2
        page.click("#dag [data-step=new]")
        page.wait("!document.querySelector('#dag .fresh')")
        page.wait("document.querySelector('#legend button')?.textContent === 'b was removed'")
        page.click("#legend button")
        page.wait("!document.querySelector('#legend button')")
        is_quiet(page)

    async with running(vibe.home) as run:
        run.begins()
        page = await opened(browser, vibe)
        page.look(1200, 860)
        await to_thread.run_sync(page.wait, status("b", "pending"))
        added = {"op": "add_step", "step": {"id": "new", "title": "New", "mode": "code"}}
        run.says(e.PlanRevisedEvent(operations=(added, {"op": "remove_step", "id": "b"}), reason="better"))
        await to_thread.run_sync(is_looked_at, page)


async def test_a_conversation_is_read_and_told_something(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home, plan_id="") as run:
        run.says(e.PromptStartedEvent(prompt_id="1"), e.UserMessageEvent(text=f"Rename it {HTML}"))
        page = await opened(browser, vibe, "--control")

        def talks() -> None:
            page.look(1200, 860)
            assert HTML in page.wait("document.querySelector('#talk .e.user')?.textContent")
            page.click("#talk textarea")
            page.type("Keep the old name, too")
            page.run("const send = document.querySelector('#talk .go'); send.click(); send.click()")
            page.wait("document.querySelector('#talk textarea').value === ''")
            is_quiet(page)
            page.look(800, 860)
            assert page.run("document.querySelector('main').getBoundingClientRect().width") == 800
            page.look(400, 860)
            dock = "[...document.querySelectorAll('#dock button')].filter((one) => one.getClientRects().length)"
            page.wait(f"{dock}.map((one) => one.textContent).join() === 'Runs,Talk,Inbox'")
            is_quiet(page)

        await to_thread.run_sync(talks)
        assert [(command.text, command.by) for command in run.taken if isinstance(command, Steer)] == [
            ("Keep the old name, too", "page")
        ]


def proposal(*ids: str, draft: int = 1) -> e.PlanProposedEvent:
    orders = {name: e.WorkOrder(prompt=f"Task of {name}") for name in ids}
    return e.PlanProposedEvent(
        goal="Build it",
        document={},
        steps=tuple(e.StepOutline(id=name, title=name, mode="code", order=order) for name, order in orders.items()),
        estimate=e.PlanBounds(steps=len(ids), max_tokens=200_000),
        expected=e.PlanExpectation(seconds=180, tokens=12_000, cost_usd=0.04),
        draft=draft,
    )


async def test_a_proposed_plan_is_shown_and_changed_by_a_sentence(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home, plan_id="") as run:
        run.says(e.SessionStartedEvent(workspace="/", model="m", agent="planner", version="1"), proposal("a", "b"))
        page = await opened(browser, vibe, "--control")

        def is_commented() -> None:
            page.look(1200, 860)
            page.wait(status("b", "pending"))
            head = page.run("document.querySelector('#head').textContent")
            assert (
                "proposed (version 1, about 3 min · 12k tok · $0.04, never more than 200k tok, no price limit)" in head
            )
            page.click("#dag [data-step=b]")
            page.click("#step .tabs button:nth-child(3)")
            page.wait("document.querySelector('#step .kv').textContent.includes('Task of b')")
            assert page.run("document.querySelectorAll('#step .acts, #head .acts').length") == 0
            page.click("#step .tabs button:nth-child(2)")
            page.wait("document.querySelector('#step .body').textContent === 'It has not begun.'")
            page.click("#talk textarea")
            page.type("Test it, too")
            page.press("Enter")
            page.wait("document.querySelector('#talk textarea').value === ''")

        def is_planned_again() -> None:
            page.wait("document.querySelector('#talk .e.user')?.checkVisibility()")
            assert not page.run("document.querySelector('#dag').checkVisibility()")

        def is_another() -> None:
            page.wait("document.querySelector('#dag [data-step=c].fresh')?.checkVisibility()")
            assert page.run("document.querySelector('#legend button').textContent") == "a was removed"
            is_quiet(page)
            page.look(400, 860)
            is_quiet(page)

        await to_thread.run_sync(is_commented)
        assert [(one.text, one.by) for one in run.taken if isinstance(one, GivePrompt)] == [("Test it, too", "page")]
        run.says(e.PromptStartedEvent(prompt_id="2"), e.UserMessageEvent(text="Test it, too"))
        await to_thread.run_sync(is_planned_again)
        run.says(e.PromptEndedEvent(prompt_id="2", outcome="completed"), proposal("b", "c", draft=2))
        await to_thread.run_sync(is_another)


async def test_its_colours_may_be_forced_it_can_be_printed_and_be_twice_as_large(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with running(vibe.home) as run:
        run.begins()
        for name in ("a", "b"):
            run.moves(name, "in_progress")
        run.agent_says("a", *edited("1", "a.py"))
        run.says(structs.replace(ASKED, subagent_step_id="b"))
        page = await opened(browser, vibe, "--control")
        for looks in (has_forced_colours, is_printed, is_twice_as_large):
            await to_thread.run_sync(looks, page)


def has_forced_colours(page: Page) -> None:
    page.look(1200, 860)
    page.wait("document.querySelector('.card')")
    page.click("#dag [data-step=a]")
    page.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    text = page.run("getComputedStyle(document.body).color")
    shown = "[...document.querySelectorAll({})].map((one) => getComputedStyle(one).{})"
    for selector, name in (("#dag .id", "fill"), ("#dag g:not(.selected, .ask) > .box", "stroke"), (".card", "color")):
        assert {*page.run(shown.format(f"'{selector}'", name))} <= {text}, selector
    for selector in (".tabs [aria-selected=true]", ".run[aria-current=true]"):
        assert {*page.run(shown.format(f"'{selector}'", "outlineStyle"))} == {"solid"}
    page.call("Emulation.setEmulatedMedia", features=[])


def is_printed(page: Page) -> None:
    page.press("t")
    page.call("Page.printToPDF")
    page.look(740, 1000, dark=True)
    page.call("Emulation.setEmulatedMedia", media="print", features=[])
    seen = "[...document.querySelectorAll({})].filter((one) => one.checkVisibility()).length"
    for shown in ("h1", ".tile", "#dag [data-step]", ".changed", "#step h2"):
        assert page.run(seen.format(f"'{shown}'")), shown
    assert page.run(seen.format("'.acts *, .tabs *, #runs, #replay, #dock, #inbox, #timeline, textarea, #head a'")) == 0
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.call("Emulation.setEmulatedMedia", media="", features=[])
    page.press("g")


def is_twice_as_large(page: Page) -> None:
    """Show the page in half of 1200 by 860, as a zoom of 200 % does."""
    page.look(600, 430)
    for pane in ("run", "step", "runs", "inbox"):
        page.click(f"#dock [data-pane={pane}]")
        is_quiet(page)
    page.wait("performance.now() - document.querySelector('.card').since > 500")
    page.click(".card .acts .go")
    page.wait("!document.querySelector('.card')")


async def test_a_card_is_no_wider_than_its_place_whatever_is_asked(vibe: VibeCommand, browser: Browser) -> None:
    long = "x" * 300
    options = [{"label": long, "description": long}, {"label": "b"}]
    async with running(vibe.home) as run:
        run.begins()
        run.agent_says(long, e.QuestionEvent(request_id="q", questions=({"question": long, "options": options},)))
        page = await opened(browser, vibe, "--control")

        def looks() -> None:
            for width in (1200, 400):
                page.look(width, 860)
                page.wait("document.querySelector('.card small')?.getClientRects().length")
                is_quiet(page)
                page.run("document.querySelector('#dock [data-pane=inbox]')?.click()")
            page.wait("document.querySelector('.card small').getBoundingClientRect().right < 400")
            assert page.run("document.querySelector('.card time').getClientRects().length") == 1

        await to_thread.run_sync(looks)


async def test_words_to_an_agent_are_kept_until_they_are_sent(vibe: VibeCommand, browser: Browser) -> None:
    said = "document.querySelector('#step textarea').value"
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.moves("b", "in_progress")
        page = await opened(browser, vibe, "--control", "plan-1")

        def types() -> None:
            page.click("#dag [data-step=a]")
            page.click("#step textarea")
            page.type("use make")
            page.click("#dag [data-step=b]")
            page.wait(f"{said} === ''")
            page.click("#dag [data-step=a]")
            page.wait(f"{said} === 'use make'")
            page.call("Page.reload")
            page.wait(f"performance.now() < 15000 && {said} === 'use make'")
            page.click("#step .say-form .go")
            page.wait(f"{said} === ''")
            page.call("Page.reload")
            page.wait(f"document.querySelector('#step textarea') && {said} === ''")

        await to_thread.run_sync(types)
    assert [(one.step_id, one.text) for one in run.taken if isinstance(one, Steer)] == [("a", "use make")]


async def test_own_words_are_typed_and_left_by_keys_alone(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.agent_says("a", e.QuestionEvent(request_id="q", questions=(QUESTION,)))
        page = await opened(browser, vibe, "--control")

        def is_typed() -> None:
            page.look(1200, 860)
            page.wait(f"{card('Question')} && performance.now() - {card('Question')}.since > 500")
            page.press("w", "Tab", "Tab", "Tab", "Tab")
            page.type("Letters, 1st")
            page.press("Tab")
            assert page.run("document.activeElement.textContent") == "Graph"
            page.run("document.querySelector('#dag [data-step=b]').focus()")
            page.press(" ")
            page.wait("document.querySelector('#step h2').textContent === 'b'")
            page.run("document.querySelector('.card input').focus()")
            page.press("Enter")
            page.wait("!document.querySelector('.card')")
            is_quiet(page)

        await to_thread.run_sync(is_typed)
        assert [one.answers for one in run.taken if isinstance(one, AnswerQuestion)] == [(("Letters, 1st",),)]


async def test_long_names_fit_and_every_script_is_shown_as_it_is_written(vibe: VibeCommand, browser: Browser) -> None:
    long, emoji = "x" * 200, "\U0001f469\u200d\U0001f4bb 1\ufe0f\u20e3 \u0645\u06cc\u200c\u062e"
    steps = tuple(e.StepOutline(id=name, title=emoji, mode="code") for name in (long, "b"))
    async with running(vibe.home) as run:
        run.says(e.PlanStartedEvent(goal=f"\u0623\u0636\u0641 a! {emoji}", steps=steps))
        run.moves(long, "in_progress")
        run.moves(long, "failed", "in_progress")
        run.says(structs.replace(ASKED, subagent_step_id=long))
        page = await opened(browser, vibe, "--control")

        def fits() -> None:
            page.wait("document.querySelector('.card')")
            assert emoji in page.run("document.querySelector('h1').textContent")
            assert page.run("getComputedStyle(document.querySelector('h1')).unicodeBidi") == "plaintext"
            shown = page.run("import('/words.js').then(({ plain }) => plain('a\\u200db \\u{e0101} \\ufe0f'))")
            assert shown == "a<U+200D>b <U+E0101> <U+FE0F>"
            page.press("l")
            for width in (1200, 400):
                page.look(width, 860)
                page.wait("document.querySelector('#log .link')?.getClientRects().length")
                is_quiet(page)
            page.click("#dock [data-pane=inbox]")
            assert page.run("document.querySelector('.card header span').clientHeight") < 30

        await to_thread.run_sync(fits)


async def test_a_long_title_leaves_room_for_the_transcript_and_a_duration_stands_behind_its_bar(
    vibe: VibeCommand, browser: Browser
) -> None:
    steps = (e.StepOutline(id="a", title="word " * 500, mode="code"),)
    async with running(vibe.home) as run:
        run.says(e.PlanStartedEvent(goal="Tidy up", steps=steps))
        run.moves("a", "in_progress")
        ends: dict[str, Any] = {"previous": "in_progress", "duration_s": 754.0}
        run.says(e.PlanStepUpdateEvent(step_id="a", title="a", status="completed", **ends))
        run.says(e.PlanCompletedEvent(status="completed", counts={"completed": 1}, duration_s=754.0))
        page = await opened(browser, vibe)

        def has_room() -> None:
            page.look(1200, 600)
            page.click("#dag [data-step=a]")
            page.wait("document.querySelector('#step .body')?.clientHeight > 100")
            page.press("t")
            bar, duration = "document.querySelector('.track .s-completed')", "document.querySelector('.track em')"
            for width in (1200, 400):
                page.look(width, 800)
                page.click("#dock [data-pane=run]") if width == 400 else None
                page.wait(f"{duration}?.checkVisibility()")
                behind = f"{duration}.getBoundingClientRect().left - {bar}.getBoundingClientRect().right"
                assert -2 < page.run(behind) < 9
                is_quiet(page)

        await to_thread.run_sync(has_room)


async def test_a_stream_that_falls_silent_is_read_anew(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        url = (await to_thread.run_sync(served, vibe))["url"]
        page = await to_thread.run_sync(browser.page)

        def is_read_anew() -> None:
            sooner = "setTimeout = ((real) => (does, ms, ...more) => real(does, ms === 40000 ? 300 : ms, ...more))"
            page.call("Page.addScriptToEvaluateOnNewDocument", source=f"{sooner}(setTimeout)")
            page.open(url)
            streams = (
                "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/stream')).length"
            )
            page.wait(f"{streams} > 1 && {status('a', 'pending')}")

        await to_thread.run_sync(is_read_anew)


async def test_a_list_of_runs_over_the_page_goes_with_a_click_beside_it(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        page = await opened(browser, vibe)

        def goes() -> None:
            page.look(900, 860)
            page.wait(status("a", "pending"))
            page.click("#head .menu")
            page.wait("document.querySelector('#runs').checkVisibility()")
            page.click("#find")
            assert page.run("document.querySelector('#runs').checkVisibility()")
            page.click("#step")
            page.wait("!document.querySelector('#runs').checkVisibility()")

        await to_thread.run_sync(goes)


async def test_a_comment_moves_with_its_line_and_is_kept_when_that_is_gone(vibe: VibeCommand, browser: Browser) -> None:
    said = "[...document.querySelectorAll('#step .said')].map((one) => [one.previousElementSibling.innerText, one.innerText])"

    def diff(*lines: str) -> str:
        hunk = {"old": [1, 0], "new": [1, len(lines)], "lines": [["+", line] for line in lines]}
        return json.dumps({"files": [{"path": "a.py", "status": "added", "hunks": [hunk]}]})

    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        page = await opened(browser, vibe, "--control")

        def comments() -> None:
            page.look(1200, 860)
            page.wait(status("a", "in_progress"))
            page.run(
                f"window.told = {json.dumps(diff('one', 'two'))}; const real = fetch; window.fetch = (path, ...more) =>"
                "path.endsWith('/diff') ? Promise.resolve(new Response(told)) : real(path, ...more)"
            )
            page.click("#dag [data-step=a]")
            page.click("#step .tabs button:nth-child(2)")
            for number, words in ((2, "Keep it"), (3, "Drop it")):
                page.click(f"#step .df > div:nth-of-type({number}) button")
                page.type(words)
                page.press("Enter")
                page.wait(f"document.querySelector('#step .body').textContent.includes('{words}Remove')")
            page.run(f"told = {json.dumps(diff('zero', 'one'))}")

        def are_kept() -> None:
            page.wait("document.querySelector('#step .df').textContent.includes('zero')")
            (line, kept), (_, gone) = page.run(said)
            assert "one" in line
            assert kept.startswith("Keep it")
            assert gone.startswith("a.py, where this is gone: two Drop it")
            page.click("#step .said:last-of-type button")
            page.wait(f"{said}.length === 1")
            is_quiet(page)

        await to_thread.run_sync(comments)
        run.moves("a", "completed", "in_progress")
        await to_thread.run_sync(are_kept)


async def test_approvals_are_given_together_but_none_in_the_moment_it_appears(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        page = await opened(browser, vibe, "--control")
        await to_thread.run_sync(page.wait, status("a", "in_progress"))
        notes = "window.notes = []; window.Notification = class { constructor(title, told) { notes.push(told.body) }"
        page.run(notes + "close() { notes.push('closed') } static requestPermission = async () => 'granted' }")
        page.run("document.hasFocus = () => false; localStorage.removeItem('seen')")

        def rings() -> None:
            page.look(1200, 860)
            page.click("#bell")
            page.wait("document.querySelector('#bell[aria-pressed=true]')")

        await to_thread.run_sync(rings)
        for number in range(3):
            run.says(structs.replace(ASKED, request_id=f"request-{number}", subagent_step_id="a"))
        early = await to_thread.run_sync(page.wait, "document.querySelector('.card .acts button')?.click() ?? 1")
        assert early

        def allows() -> None:
            page.wait("document.querySelector('.bulk')?.textContent === 'Allow 3'")
            page.wait("notes.length === 3")
            page.wait("[...document.querySelectorAll('.card')].every((one) => performance.now() - one.since > 500)")
            page.click(".card:last-of-type .pick")
            page.wait("document.querySelector('.bulk').textContent === 'Allow 2'")
            page.click(".bulk")
            page.wait("document.querySelectorAll('.card').length === 1")
            is_quiet(page)

        await to_thread.run_sync(allows)
        assert len({command.request_id for command in run.taken if isinstance(command, Approve)}) == len(run.taken) == 2
        assert "command" not in page.run("notes.join()")


def test_a_comment_on_lines_of_a_running_step_is_heard_by_its_agent(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run, page = followed(vibe, write_plan, links, browser)
    queued = "document.querySelector('#dag [data-step=publish] .ln')?.textContent.startsWith('queued')"
    page.wait(f"{queued} || {card('Permission')}")
    page.click("#dag [data-step=publish]")
    page.click("#step .tabs button:nth-child(2)")
    page.wait("document.querySelector('#step .df')?.textContent.includes('first line')")

    page.click("#step .df .add:nth-child(2) button")
    page.press("Escape")
    page.click("#step .df .add:nth-child(3) button", shift=True)
    page.type("Say this in one line")
    page.press("Enter")
    page.wait("document.querySelector('#step .said')?.textContent.startsWith('1 to 2')")
    page.click("#step .sends button")
    page.wait("document.querySelector('#step .said small')?.textContent.startsWith('sent')")

    answers(page, by_mouse, *WORDS)
    assert run.wait(60) == 0
    page.click("#step .tabs button:nth-child(1)")
    said = page.wait(
        "[...document.querySelectorAll('#step .e.user')].find((one) => one.textContent.includes('one line')).innerText"
    )
    assert said.startswith("ana said")
    assert "first line\n" in said
    is_quiet(page)


def test_a_comment_that_is_sent_by_a_double_click_is_heard_once(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run, page = followed(vibe, write_plan, links, browser)
    page.wait(card("Question"))
    page.click("#dag [data-step=publish]")
    page.click("#step .tabs button:nth-child(2)")
    page.click("#step .df .add button")
    page.type("Say it once")
    page.press("Enter")
    page.wait("document.querySelector('#step .sends button')")
    page.run("const send = document.querySelector('#step .sends button'); send.click(); send.click()")
    page.wait("document.querySelector('#step .said small')?.textContent.startsWith('sent')")

    asked_and_answered(page, links["url"])
    assert run.wait(60) == 0
    page.click("#dag [data-step=publish]")
    page.click("#step .tabs button:nth-child(1)")
    page.wait("document.querySelectorAll('#step .e.call').length > 1")
    said = "[...document.querySelectorAll('#step .e.user')].filter((one) => one.textContent.includes('Say it once'))"
    assert page.wait(f"{said}.length") == 1


def edited(number: str, path: str) -> tuple[e.Event, ...]:
    """Return the events of an agent that wrote a file."""
    call: dict[str, Any] = {"tool_call_id": number, "tool": "write_file"}
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-b\n+c\n"
    done = e.ToolResultEvent(**call, status="ok", content="", duration_s=0.1, diff=diff, files_changed=(path,))
    return e.ToolCallEvent(**call, arguments={"path": path}), done


async def test_a_comment_that_is_being_written_stays_while_the_changes_go_on(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.agent_says("a", *edited("1", "a.py"))
        page = await opened(browser, vibe, "--control")

        def is_begun() -> None:
            page.look(1200, 860)
            page.wait(status("a", "in_progress"))
            page.run(
                "const real = fetch; window.fetch = (path, ...more) => path.endsWith('/diff')"
                "? Promise.resolve(new Response('{}')) : real(path, ...more)"
            )
            page.click("#dag [data-step=a]")
            page.click("#step .tabs button:nth-child(2)")
            page.click("#step .df .add button")
            page.type("Say it shorter")

        def is_kept() -> None:
            page.wait("document.querySelector('#step .tabs button:nth-child(2)').textContent === 'Changes 2'")
            page.press("Enter")
            page.wait("document.querySelector('#step .said')?.textContent.startsWith('Say it shorter')")
            page.wait("document.querySelectorAll('#step .file').length === 2")
            is_quiet(page)

        await to_thread.run_sync(is_begun)
        run.agent_says("a", *edited("2", "b.py"))
        await to_thread.run_sync(is_kept)


async def test_a_comment_that_another_tab_sent_is_not_sent_again_and_has_the_servers_time(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.agent_says("a", *edited("1", "a.py"))
        url = (await to_thread.run_sync(served, vibe, "--control"))["url"]
        send = "document.querySelector('#step .sends button')"
        sent = "document.querySelector('#step .said small')?.textContent"

        def shows_changes() -> Page:
            page = browser.page()
            page.look(1200, 860)
            hour_behind = "Date.now = ((real) => () => real() - 3_600_000)(Date.now)"
            page.call("Page.addScriptToEvaluateOnNewDocument", source=hour_behind)
            page.open(url)
            page.click("#dag [data-step=a]")
            page.click("#step .tabs button:nth-child(2)")
            page.wait("document.querySelector('#step .df .add button')")
            return page

        def is_sent_once() -> None:
            first = shows_changes()
            first.click("#step .df .add button")
            first.type("Say it once")
            first.press("Enter")
            first.wait(send)
            second = shows_changes()
            second.wait(send)
            before = time.time()
            first.run(f"{send}.click()")
            first.wait(sent)
            times = {time.strftime("sent %H:%M", time.localtime(at)) for at in (before, time.time())}
            assert first.run(sent)[:10] in times
            second.run(f"{send}.click()")
            second.wait(sent)

        await to_thread.run_sync(is_sent_once)
        assert [type(command) for command in run.taken] == [Steer]


async def test_changes_that_could_not_be_read_are_asked_for_again(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        page = await opened(browser, vibe)

        def are_shown() -> None:
            page.look(1200, 860)
            page.wait(status("a", "in_progress"))
            file: dict[str, Any] = {"path": "a.py", "status": "added", "added": 1, "removed": 0, "hunks": []}
            page.run(
                "const real = fetch, told = [[404, { message: 'git is busy' }], [200, "
                f"{json.dumps({'files': [file]})}]];"
                "window.fetch = (path, ...more) => { if (!path.endsWith('/diff')) return real(path, ...more);"
                "const [status, body] = told.length > 1 ? told.shift() : told[0];"
                "return Promise.resolve(new Response(JSON.stringify(body), { status })) }"
            )
            page.click("#dag [data-step=a]")
            page.click("#step .tabs button:nth-child(2)")
            page.wait("document.querySelector('#step .note')?.textContent === 'git is busy'")
            page.wait("document.querySelector('#step .file b')?.textContent === 'a.py'")

        await to_thread.run_sync(are_shown)


async def test_over_plain_http_by_another_name_it_answers_as_well(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.says(structs.replace(ASKED, subagent_step_id="a"))
        url = (await to_thread.run_sync(served, vibe, "--control", "--allow-host", OTHER_NAME))["url"]
        page = await to_thread.run_sync(browser.page, url.replace("127.0.0.1", OTHER_NAME))
        await to_thread.run_sync(by_mouse, page, "Permission", "Once")
        assert await to_thread.run_sync(page.run, "isSecureContext") is False
        assert [command.request_id for command in run.taken if isinstance(command, Approve)] == ["request-1"]


async def test_a_browser_that_stores_nothing_follows_a_run_as_well(vibe: VibeCommand, browser: Browser) -> None:
    refuses = (
        "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name,"
        "{ configurable: true, get() { throw new DOMException('denied', 'SecurityError') } })"
    )
    async with running(vibe.home) as run:
        run.begins()
        url = (await to_thread.run_sync(served, vibe))["url"]
        page = await to_thread.run_sync(browser.page)
        page.call("Page.addScriptToEvaluateOnNewDocument", source=refuses)
        await to_thread.run_sync(page.open, url)
        await to_thread.run_sync(page.wait, status("a", "pending"))
        run.moves("a", "in_progress")
        await to_thread.run_sync(page.wait, status("a", "in_progress"))
        assert page.said == []


def test_a_page_too_many_says_why_and_comes_once_there_is_room(links: dict[str, Any], browser: Browser) -> None:
    address, headers = links["url"].partition("#")[0] + "api/stream", {"authorization": f"Bearer {links['token']}"}
    with httpx.Client(headers=headers, limits=httpx.Limits(max_connections=None)) as client, ExitStack() as stack:
        for _ in range(MOST_PAGES):
            stack.enter_context(client.stream("GET", address))
        page = browser.page(links["url"])
        page.wait("document.querySelector('#conn').textContent === '64 pages listen already: close some'")
    page.wait("document.querySelector('#conn').textContent === 'live'")


async def test_a_plan_that_begins_later_is_not_new_and_is_heard_though_no_frame_is_drawn(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with running(vibe.home) as run:
        page = await opened(browser, vibe, "plan-1")
        await to_thread.run_sync(page.wait, "document.querySelector('#conn').textContent === 'live'")
        await to_thread.run_sync(page.run, "window.requestAnimationFrame = () => 0")
        run.begins()
        run.moves("a", "in_progress")
        await to_thread.run_sync(page.wait, status("a", "in_progress"), 2)
        assert await to_thread.run_sync(page.run, "document.querySelectorAll('#dag .fresh').length") == 0


async def test_earlier_entries_that_are_asked_for_twice_are_shown_once(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        for number in range(MOST_ENTRIES + 10):
            run.agent_says("a", e.AssistantEvent(text=f"{number}", message_id=f"m{number}"))

        def are_read(page: Page) -> None:
            page.look(1200, 860)
            page.click("#dag [data-step=a]")
            page.wait("document.querySelector('#step .older')")
            page.run("const more = document.querySelector('#step .older'); more.click(); more.click()")
            page.wait("!document.querySelector('#step .older')")
            page.run("new Promise((done) => setTimeout(done, 300))")
            assert page.run("document.querySelectorAll('#step [data-entry]').length") == MOST_ENTRIES + 10

        page = await opened(browser, vibe, "plan-1")
        await to_thread.run_sync(are_read, page)


async def test_the_log_says_which_steps_did_not_complete(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "cancelled")
        run.moves("b", "failed")
        run.says(e.PlanCompletedEvent(status="failed", reason="cancelled", counts={}, duration_s=1.0, outcome="failed"))
        page = await opened(browser, vibe, "plan-1")

        def reads() -> None:
            page.wait("document.querySelector('#dag [data-step=a]')")
            page.press("l")
            ends = "[...document.querySelectorAll('#log p span')].map((one) => one.textContent).sort().join()"
            page.wait(f"{ends} === 'cancelled,failed'")
            assert page.run("document.querySelector('#head .pill').textContent") == "failed (a step was cancelled)"

        await to_thread.run_sync(reads)


async def test_earlier_entries_leave_the_reader_where_they_were(vibe: VibeCommand, browser: Browser) -> None:
    body = "document.querySelector('#step .body')"
    seen = (
        f"[...document.querySelectorAll('#step .e')].find((one) => one.getBoundingClientRect().top >="
        f"{body}.getBoundingClientRect().top + 30)?.textContent"
    )
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.agent_says("a", e.UserMessageEvent(text="", images=2))
        for number in range(MOST_ENTRIES + 100):
            run.agent_says("a", e.AssistantEvent(text=f"word {number}", message_id=str(number)))
        page = await opened(browser, vibe, "plan-1")

        def reads() -> None:
            page.click("#dag [data-step=a]")
            page.wait("document.querySelector('#step .older')")
            page.run(f"{body}.scrollTop = 0")
            before = page.run(seen)
            page.click("#step .older")
            page.wait("[...document.querySelectorAll('#step .e')].some((one) => one.textContent === 'word 0')")
            assert page.run(seen) == before
            assert "[2 images]" in page.run(f"{body}.textContent")
            is_quiet(page)

        await to_thread.run_sync(reads)


async def test_what_was_refused_failed_or_begun_does_not_stay(vibe: VibeCommand, browser: Browser) -> None:
    """The next command clears a refusal, failed changes are requested again, and one click stops no other run."""
    async with running(vibe.home) as run, running(vibe.home, "two", "plan-2") as other:
        run.begins()
        run.moves("a", "in_progress")
        other.begins()
        run.reply = Reply(ok=False, reason="refused", message="not now")

        def is_refused(page: Page) -> None:
            page.look(1200, 860)
            page.click("#dag [data-step=a]")
            page.click("#step textarea")
            page.type("Hurry")
            page.press("Enter")
            page.wait("document.querySelector('#conn').textContent === 'not now'")
            page.run("import('/rows.js').then(({ connect }) => { connect() })")
            page.wait(
                "performance.getEntriesByType('resource').filter((one) => one.name.includes('/stream')).length > 1"
            )
            page.run("new Promise((done) => setTimeout(done, 300))")
            assert page.run("document.querySelector('#conn').textContent") == "not now"
            page.run("window.real = fetch; window.fetch = () => Promise.reject()")
            page.click("#step .tabs button:nth-child(2)")
            page.wait("document.querySelector('#step .note').textContent.includes('reached')")

        def is_taken(page: Page) -> None:
            page.run("window.fetch = real; dispatchEvent(new Event('resize'))")
            page.wait("!document.querySelector('#step .note').textContent.includes('reached')")
            page.run("document.querySelector('#step .go').click()")
            page.wait("document.querySelector('#conn').textContent === 'live'")
            page.click("#head .no")
            page.wait("document.querySelector('#head .no').textContent === 'Stop it?'")
            page.click(".run[data-run=plan-2]")
            page.wait("document.querySelector('#head .no')?.textContent === 'Stop'")

        page = await opened(browser, vibe, "--control", "plan-1")
        await to_thread.run_sync(is_refused, page)
        run.reply = Reply(ok=True, message="done")
        await to_thread.run_sync(is_taken, page)


async def test_a_plan_that_was_resumed_is_replayed_from_its_first_run_on(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        page = await opened(browser, vibe)
        await to_thread.run_sync(page.wait, status("a", "in_progress"))
        run.moves("a", "completed", "in_progress")
        await to_thread.run_sync(page.wait, status("a", "completed"))
        run.says(e.PlanPausedEvent(reason="pause"))
    async with running(vibe.home, "two") as run:
        run.says(e.PlanResumedEvent(goal="Tidy up", steps=STEPS_OF_TWO, done=1))
        run.moves("b", "in_progress")

        def is_replayed() -> None:
            page.wait(status("b", "in_progress"))
            page.press("t")
            bar = "document.querySelector('#timeline .tl[data-key=a] .s-completed')"
            page.wait(f"{bar}.clientWidth > 20")
            page.press(*",,,", "g")
            page.wait(status("a", "in_progress"))
            assert page.run("document.querySelector('#replay input').value") == "0"

        await to_thread.run_sync(is_replayed)


def test_nothing_turns_in_a_run_whose_process_died(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run = vibe.start("plan", "run", write_plan(command_step("wait", "sleep 600")), "--auto-approve")
    page = browser.page()
    page.look(1200, 860, motion=True)
    page.open(links["url"])
    page.wait(status("wait", "in_progress"))
    turning = "getComputedStyle(document.querySelector('#dag .spin')).animationName"
    steps = "document.querySelector('#head [data-figure=steps] span').textContent"
    assert page.run(f"[{turning}, {steps}]") == ["spin", "steps, 1 running"]
    os.killpg(run.pid, signal.SIGKILL)
    page.wait("document.querySelector('#head .pill').textContent.startsWith('lost')")
    page.wait(f"{turning} === 'none' && {steps} === 'steps'")
    is_quiet(page)


async def test_a_step_says_what_blocks_it(vibe: VibeCommand, browser: Browser) -> None:
    outlines = tuple(
        e.StepOutline(id=name, title=name, mode="code", depends_on=above, status=status)
        for name, above, status in (
            ("first", (), "pending"),
            ("second", (), "pending"),
            ("last", ("first",), "blocked"),
        )
    )
    async with running(vibe.home) as run:
        run.says(e.PlanStartedEvent(goal="Try it", steps=outlines, workspace=str(vibe.workdir)))
        page = await opened(browser, vibe, "plan-1")
        await to_thread.run_sync(page.wait, "document.querySelector('#dag [data-step=last]')")
        await to_thread.run_sync(page.click, "#dag [data-step=last]")
        moved = e.PlanStepUpdateEvent(step_id="first", title="first", status="in_progress", previous="pending")
        run.says(moved, structs.replace(moved, status="failed", previous="in_progress", reason="exit_code"))
        said = "[document.querySelector('#dag [data-step=last] .ln').textContent,"
        said += "document.querySelector('#step .doing')?.textContent].join() === 'blocked: first failed,blocked: first failed'"
        await to_thread.run_sync(page.wait, said)
        label = await to_thread.run_sync(page.run, "document.querySelector('#dag [data-step=last]').ariaLabel")
        assert label == "last: last, to do, blocked: first failed"
        await to_thread.run_sync(is_quiet, page)


async def test_a_call_that_waits_for_an_answer_does_not_look_as_if_it_ran(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.agent_says("a", e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={"command": "make"}), ASKED)
        page = await opened(browser, vibe, "plan-1")
        await to_thread.run_sync(page.look, 1200, 860)
        await to_thread.run_sync(page.wait, "document.querySelector('#dag [data-step=a]')")
        await to_thread.run_sync(page.click, "#dag [data-step=a]")
        call = "document.querySelector('#step .call summary')"
        await to_thread.run_sync(page.wait, f"{call}?.innerText.trim().endsWith('waiting for you')")
        assert page.run(f"[...{call}.querySelector('.tick').classList].join()") == "tick,ask"
        assert "permission" not in page.run("document.querySelector('.card .note').textContent")
        run.agent_says("a", e.ApprovalDecisionEvent(request_id="request-1", decision="allow", by="ana"))
        await to_thread.run_sync(page.wait, f"{call}.innerText.trim().endsWith('running')")
        await to_thread.run_sync(is_quiet, page)


async def test_a_paused_plan_says_why_and_once_its_run_has_ended_what_continues_it(
    vibe: VibeCommand, browser: Browser
) -> None:
    said = "document.querySelector('#head .pill')?.textContent === {}"
    async with running(vibe.home) as run:
        run.begins()
        page = await opened(browser, vibe, "plan-1")
        run.says(e.PlanPausedEvent(reason="SIGINT"))
        await to_thread.run_sync(page.wait, said.format("'paused (Ctrl-C)'"))
    continued = said.format("'paused (Ctrl-C): `vibe plan resume plan-1` continues it'")
    await to_thread.run_sync(page.wait, continued)
    await to_thread.run_sync(is_quiet, page)


def test_a_transcript_that_has_not_come_yet_is_not_called_empty(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    vibe.replay({"agents": {"one": {"turns": [{"text": "done"}]}}})
    assert vibe("plan", "run", write_plan(agent("one", "Go"), command_step("two", "true")), "--auto-approve").code == 0
    page = browser.page()
    page.look(1200, 860)
    page.open(links["url"])
    page.wait(status("two", "completed"))
    page.call("Network.enable")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.call("Network.emulateNetworkConditions", offline=True, **network)
    for step_id in ("one", "two"):
        page.click(f"#dag [data-step={step_id}]")
        page.wait("document.querySelector('#step .body')?.textContent === 'Reading it.'")
    page.call("Network.emulateNetworkConditions", offline=False, **network)
    page.wait("document.querySelector('#step [data-entry]')")


async def test_a_phone_says_as_well_why_a_page_is_not_live_or_was_refused(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.reply = Reply(ok=False, reason="refused", message="not now")
        url = (await to_thread.run_sync(served, vibe, "--control"))["url"]

        def says() -> None:
            page = browser.page()
            page.look(400, 860)
            page.open(url.partition("#")[0])
            page.wait("document.querySelector('h1').innerText === 'open the link that vibe printed'")
            page.open(url)
            page.click("#head .acts .act")
            page.wait("document.querySelector('#head .sub .bad').innerText === 'not now'")

        await to_thread.run_sync(says)


def test_a_second_tab_can_be_silenced_again(links: dict[str, Any], browser: Browser) -> None:
    pages = [browser.page(links["url"]) for _ in range(2)]
    for page in pages:
        page.look(1200, 860)
        page.wait("document.querySelector('#conn').textContent === 'live'")
        page.run("window.Notification = class { static requestPermission = async () => 'granted' }")
        page.click("#bell")
        page.wait("document.querySelector('#bell[aria-pressed=true]')")
    pages[1].click("#bell")
    pages[1].wait("document.querySelector('#bell[aria-pressed=false]')")
    locks = "navigator.locks.query().then(({ held, pending }) => [held.length, pending.length])"
    until(lambda: pages[1].run(locks) == [1, 0], 5)
    pages[0].click("#bell")
    pages[0].wait("document.querySelector('#bell[aria-pressed=false]')")
    until(lambda: pages[0].run(locks) == [0, 0], 5)
    assert pages[0].said == pages[1].said == []


@pytest.mark.parametrize("offered", ["class { static requestPermission = async () => 'denied' }", "undefined"])
def test_a_browser_that_refuses_notifications_is_told(links: dict[str, Any], browser: Browser, offered: str) -> None:
    page = browser.page(links["url"])
    page.look(1200, 860)
    page.wait("document.querySelector('#conn').textContent === 'live'")
    page.run(f"window.Notification = {offered}; null")
    page.click("#bell")
    page.wait("document.querySelector('#conn').textContent.includes('allow notifications for this page')")
    assert page.run("document.querySelector('#bell').ariaPressed") == "false"
    is_quiet(page)


def test_a_run_that_is_deleted_while_it_is_shown_stays_and_says_so(
    vibe: VibeCommand, write_plan: WritePlan, browser: Browser
) -> None:
    for goal in ("Keep it", "Delete it"):
        assert vibe("plan", "run", write_plan(command_step("a", "true"), goal=goal)).code == 0
    page = browser.page(served(vibe, vibe.plan_ids()[1], "--control")["url"])
    page.look(1200, 860)
    page.wait(status("a", "completed"))
    gone = next(entry for entry in Registry(vibe.home).ended() if entry.info.plan_id == vibe.plan_ids()[1])
    assert vibe("plan", "clean", vibe.plan_ids()[1], "--records").code == 0
    shutil.rmtree(Path(gone.journal).parent)
    page.wait("document.querySelector('#head .pill').textContent.startsWith('deleted')")
    assert page.run("document.querySelector('h1').textContent") == "Delete it"
    page.press("]")
    page.wait("document.querySelector('h1').textContent === 'Keep it'")
    is_quiet(page)


def test_a_card_of_another_run_names_it_and_words_stay_apart(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    assert vibe("plan", "run", write_plan(command_step("one", "true"), goal="The other")).code == 0
    run = started(vibe, write_plan, IN_TURN)
    page = browser.page(f"{links['url'].partition('#')[0]}?run={vibe.plan_ids()[0]}#{links['token']}")
    page.look(400, 860)
    said = page.wait(f"{card('Question')}.ariaLabel")
    assert said.startswith("Question audit in Give textkit slugify() <img")
    page.wait("document.querySelector('#dock [data-pane=inbox]').textContent === 'Inbox 1'")
    assert page.wait("document.querySelector('#outline .tick').ariaLabel") == "done"
    assert page.run("document.querySelector('#replay .when').textContent") != "1.0 s of 1.0 s"
    assert "ASCII only 1" in page.run(f"{card('Question')}.textContent")
    request = page.run(f"{card('Question')}.dataset.request")
    assert vibe("events", "answer", vibe.plan_ids()[1], request, "2", "--by", "ben").code == 0
    assert page.wait("document.querySelector('.settled')?.textContent").endswith("Any letter, by ben")
    page.press("/")
    page.type("how strict")
    run_of = "document.querySelector('#runlist .meta :last-child')?.textContent"
    page.wait(f"{run_of}?.startsWith('Give textkit slugify()') && {run_of}.endsWith('publish it')")
    assert "No run" not in page.run("document.querySelector('#runlist').textContent")
    run.kill()


def test_back_leads_to_the_view_before(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    for goal in ("First", "Second"):
        assert (
            vibe("plan", "run", write_plan(command_step("a", "true"), command_step("b", "true"), goal=goal)).code == 0
        )
    token = {"Authorization": f"Bearer {links['token']}"}
    with httpx.Client(base_url=links["url"].partition("#")[0], headers=token) as client:
        until(lambda: len(client.get("api/runs").json()["runs"]) == 2)  # ended ones are looked for every 5 s
    page = browser.page(links["url"])
    page.look(1200, 860)

    def shows(goal: str, step: str, tab: str) -> None:
        page.wait(f"document.querySelector('h1')?.textContent === '{goal}'")
        page.wait(f"(document.querySelector('#step').dataset.step ?? '') === '{step}'")
        page.wait(f"!document.querySelector('#{tab}').hidden")

    shows("Second", "", "graph")
    page.wait(status("a", "completed"))
    page.press("j")
    shows("Second", "a", "graph")
    page.press("l")
    shows("Second", "a", "log")
    page.click(f".run[data-run='{vibe.plan_ids()[0]}']")
    shows("First", "", "log")
    for way, views in (
        ("back", (("Second", "a", "log"), ("Second", "a", "graph"))),
        ("forward", (("Second", "a", "log"),)),
    ):
        for view in views:
            page.run(f"history.{way}()")
            shows(*view)
    page.run("history.go(-2)")
    shows("Second", "", "graph")
    assert page.run("document.querySelector('#step').textContent").startswith("Choose a step")
    is_quiet(page)


async def test_a_page_that_was_left_holds_no_stream_and_comes_back_as_it_was(
    vibe: VibeCommand, browser: Browser
) -> None:
    """A browser keeps pages for its "back", and allows six connections at a time to a host."""
    async with running(vibe.home) as run:
        run.begins()
        url = (await to_thread.run_sync(served, vibe))["url"]
        page = await to_thread.run_sync(browser.page)

        def is_left_and_opened_again() -> None:
            for _ in range(7):
                page.open(url)
                page.wait(status("a", "pending"))
                page.wait("document.querySelector('#conn').textContent === 'live'")
                page.run("window.isKept = true")
                page.open("about:blank")
                page.wait("location.href === 'about:blank'")
            before = page.call("Page.getNavigationHistory")["entries"][-2]
            page.call("Page.navigateToHistoryEntry", entryId=before["id"])
            page.wait("window.isKept")

        await to_thread.run_sync(is_left_and_opened_again)
        run.moves("a", "in_progress")
        await to_thread.run_sync(page.wait, status("a", "in_progress"))


async def test_a_link_to_a_run_that_is_gone_says_so_and_lists_the_others(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home) as run:
        run.begins()
        page = await opened(browser, vibe, "nothing")

        def chooses() -> None:
            page.look(1200, 860)
            page.wait("document.querySelector('#conn').textContent === 'no such run'")
            page.click(".run[data-run=plan-1]")
            page.wait(status("a", "pending"))
            page.wait("document.querySelector('#conn').textContent === 'live'")

        await to_thread.run_sync(chooses)
