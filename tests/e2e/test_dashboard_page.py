"""The dashboard's page in Chromium: it follows real runs, answers what they ask, and shows what they did.

Covers ``vibe.dashboard``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from msgspec import structs

from ipc import events as e
from ipc.commands import Approve, Steer
from tests.e2e.chromium import PROGRAM, Browser, Page, chromium
from tests.e2e.conftest import REPOSITORY, VibeCommand, command_step
from tests.fakes.runs import ASKED, running

WritePlan = Callable[..., str]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")

STEPS_A_LAYER = 417
MOST_DRAWN_MS = 2_000
"""From the start of the load."""
SHOWN_GOAL = "Give textkit slugify() and shorten(), each tested and documented, then publish it."
GOAL = "Give textkit slugify() <img src=x onerror=alert(1)> \u202e and publish it"
HTML = "<b>bold</b><script>alert(1)</script>"
QUESTION = {"question": "How strict may the rule be?", "options": [{"label": "ASCII only"}, {"label": "Any letter"}]}
WHERE = {
    "id": "where",
    "question": "Where should it go?",
    "options": [{"id": "staging", "label": "Staging first"}, {"id": "registry", "label": "The registry"}],
}
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
    command_step("notes", "cat staged.txt", depends_on=["slugify", "stage", "ship", "publish", "mirror"]),
)
WRITE = {
    "name": "write_file",
    "arguments": {"path": "slugs.py", "content": "import re\n\n\ndef slugify():\n    pass\n"},
}
NOTE = {"name": "write_file", "arguments": {"path": "news.md", "content": "first line\nsecond line\n"}}
SHELL = {"name": "bash", "arguments": {"command": "touch published"}}
ASK = {"name": "ask_user_question", "arguments": {"questions": [QUESTION]}}
SCRIPT = {
    "agents": {
        "slugify": {"turns": [{"text": HTML, "tool_calls": [WRITE]}, {"text": "written"}, {"text": "mended"}]},
        "audit": {"turns": [{"tool_calls": [ASK]}, {"text": "strict"}]},
        "publish": {"turns": [{"tool_calls": [NOTE]}, {"tool_calls": [SHELL]}, {"text": "published"}]},
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
    """A dashboard that may act."""
    return served(vibe, "--control", "--name", "ana")


def served(vibe: VibeCommand, *words: str) -> dict[str, Any]:
    process = vibe.start("dashboard", "--web", "--output", "json", *words)
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def started(vibe: VibeCommand, write_plan: WritePlan) -> subprocess.Popen[bytes]:
    vibe.replay(SCRIPT)
    return vibe.start("plan", "run", write_plan(*STEPS, goal=GOAL, decisions=[WHERE]), "--wait", "--approve", "edits")


def status(step_id: str, *statuses: str) -> str:
    return " || ".join(f"document.querySelector('#dag [data-step={step_id}][data-status={one}]')" for one in statuses)


def card(kind: str) -> str:
    return f"[...document.querySelectorAll('article.card')].find((one) => one.textContent.startsWith('{kind}'))"


def is_quiet(page: Page) -> None:
    """Nothing was said to the console, and nothing but code can be scrolled sideways."""
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
    page.wait(f"!({card(kind)})", 5)


def by_key(page: Page, kind: str, key: str) -> None:
    page.wait(card(kind))
    page.wait(f"performance.now() - {card(kind)}.since > 500")
    for _ in range(3):
        page.press("w")
        if page.run(f"document.activeElement === {card(kind)}"):
            break
    page.press(key)
    page.wait(f"!({card(kind)})", 5)


def asked_and_answered(page: Page, url: str) -> None:
    """Open a page of the usual width, and answer all that the run asks with the mouse."""
    page.look(1200, 860)
    page.open(url)
    by_mouse(page, "Question", "ASCII only")
    by_mouse(page, "Permission", "Once")
    page.wait("document.querySelector('form[data-request]')")
    by_mouse(page, "Decision", "Staging first")
    page.wait(status("notes", "completed"))


def test_all_that_a_run_asks_is_answered_with_the_mouse(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run = started(vibe, write_plan)
    page = browser.page()
    asked_and_answered(page, links["url"])

    assert run.wait(60) == 0
    assert (vibe.workdir / "published").exists()
    assert (vibe.workdir / "staged.txt").exists()
    page.wait("document.querySelector('#head [data-figure=steps] b').textContent === '6 / 8'")
    assert page.wait("document.querySelector('#head [data-figure=checks] b').textContent").startswith("1 ✓")
    figures = page.run("[...document.querySelectorAll('#head [data-figure]')].map((one) => one.dataset.figure)")
    assert figures == ["steps", "checks", "tokens", "cost", "time"]
    page.click("#dag [data-step=slugify]")
    page.wait("document.querySelector('#step [data-entry]')")
    text = page.wait("document.querySelector('#step .body').textContent.includes('check') && document.body.innerText")
    assert HTML in text
    assert "<U+202E>" in text
    assert page.run("document.querySelectorAll('img, script:not([src])').length") == 0
    is_quiet(page)


def test_all_that_a_run_asks_is_answered_by_keys_alone(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser
) -> None:
    run = started(vibe, write_plan)
    page = browser.page()
    page.look(2000, 1200, dark=True)
    page.open(links["url"])

    by_key(page, "Question", "2")
    by_key(page, "Permission", "1")
    by_key(page, "Decision", "1")
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
    started(vibe, write_plan)
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

    for part in range(1, 10):
        at = first + (last - first) * part / 10
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
        assert page.run("document.querySelector('#head [data-figure=steps] b').textContent") == f"{done} / 8"
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
        page.open(url)
        page.wait(f"document.querySelectorAll('#dag .cell[data-status]').length === {len(steps)}")
        assert page.run("document.querySelector('#head [data-figure=checks] b').textContent") == "\u2013"
        assert page.said == []
        return float(page.run("performance.now()"))

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
    assert min(times) < MOST_DRAWN_MS


def test_pictures_for_the_docs_are_taken_of_a_run_that_asks(
    vibe: VibeCommand, write_plan: WritePlan, links: dict[str, Any], browser: Browser, tmp_path: Path
) -> None:
    """With VIBE_PICTURES in the environment they are written to docs/images."""
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
    is_quiet(page)
    assert all((folder / f"dashboard-{name}.png").stat().st_size > 20_000 for name in ("run", "timeline"))


def shown_steps() -> tuple[dict[str, Any], ...]:
    """The steps that the pictures show."""
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


async def test_a_conversation_is_read_and_told_something(vibe: VibeCommand, browser: Browser) -> None:
    async with running(vibe.home, plan_id="") as run:
        run.says(e.PromptStartedEvent(prompt_id="1"), e.UserMessageEvent(text=f"Rename it {HTML}"))
        url = (await to_thread.run_sync(served, vibe, "--control"))["url"]
        page = await to_thread.run_sync(browser.page, url)

        def talks() -> None:
            page.look(1200, 860)
            assert HTML in page.wait("document.querySelector('#talk .e.user')?.textContent")
            page.click("#talk textarea")
            page.type("Keep the old name, too")
            page.press("Enter")
            page.wait("document.querySelector('#talk textarea').value === ''")
            is_quiet(page)

        await to_thread.run_sync(talks)
        assert [(command.text, command.by) for command in run.taken if isinstance(command, Steer)] == [
            ("Keep the old name, too", "page")
        ]


async def test_approvals_are_given_together_but_none_in_the_moment_it_appears(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        url = (await to_thread.run_sync(served, vibe, "--control"))["url"]
        page = await to_thread.run_sync(browser.page, url)
        await to_thread.run_sync(page.wait, status("a", "in_progress"))
        notes = "window.notes = []; window.Notification = class { constructor(title, told) { notes.push(told.body) }"
        page.run(notes + "close() { notes.push('closed') } static requestPermission = async () => 'granted' }")
        page.run("document.hasFocus = () => false; localStorage.removeItem('vibe seen')")

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
    run = started(vibe, write_plan)
    page = browser.page()
    page.look(1200, 860)
    page.open(links["url"])
    page.wait("document.querySelector('#dag [data-step=publish] .ln')?.textContent.startsWith('queued')")
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

    by_mouse(page, "Question", "ASCII only")
    by_mouse(page, "Permission", "Once")
    by_mouse(page, "Decision", "Staging first")
    assert run.wait(60) == 0
    page.click("#step .tabs button:nth-child(1)")
    said = page.wait(
        "[...document.querySelectorAll('#step .e.user')].find((one) => one.textContent.includes('one line')).innerText"
    )
    assert said.startswith("ana said")
    assert "first line\n" in said
    is_quiet(page)
