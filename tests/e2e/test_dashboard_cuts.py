"""The dashboard's page after a lost connection: it shows what a fresh page shows.

Covers ``vibe.dashboard``.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from socket import SHUT_RDWR, create_connection, create_server, socket
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from anyio import to_thread
from msgspec import structs

from ipc import events as e
from ipc.commands import Approve
from tests.e2e.chromium import PROGRAM, Browser, Page, chromium
from tests.e2e.conftest import VibeCommand
from tests.fakes.runs import ASKED, Run, running
from tests.fakes.waiting import until

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")

CUT_SECONDS = 30
REST_SECONDS = 10
"""Seconds after which a hidden tab closes its stream."""
HIDDEN = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })"
ROWS = (
    "import('/rows.js').then(({ tables }) => JSON.stringify(Object.fromEntries(Object.entries(tables)"
    ".map(([name, table]) => [name, Object.fromEntries(table)]))))"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as one:
        yield one


@asynccontextmanager
async def begun(vibe: VibeCommand) -> AsyncGenerator[Run]:
    """Run a plan whose beginning a page can know."""
    async with running(vibe.home) as run:
        run.begins()
        run.moves("a", "in_progress")
        run.says(structs.replace(ASKED, request_id="before", subagent_step_id="a"))
        yield run


class Cable:
    """A way to a port of this machine that can be cut. A cut ends its connections, and lets nothing through."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends: list[socket] = []
        self.is_cut = False
        self._listener = create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        self.is_cut = True
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(SHUT_RDWR)  # closing alone wakes nobody who waits there
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _start(self, act: Callable[..., None], *ends: socket) -> None:
        thread = Thread(target=act, args=ends, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.is_cut:
                    near.close()
                    continue
                far = create_connection(("127.0.0.1", self._port))
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    self._start(self._pass_on, *ends)

    @staticmethod
    def _pass_on(source: socket, target: socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)


def served(vibe: VibeCommand, *words: str) -> dict[str, Any]:
    process = vibe.start("dashboard", "--web", "plan-1", "--output", "json", *words)
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def status(step_id: str, one: str) -> str:
    return f"document.querySelector('#dag [data-step={step_id}][data-status={one}]')"


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def rows(page: Page) -> Any:
    return json.loads(page.run(ROWS))


def goes_on(run: Run) -> None:
    """Publish what a page misses: an answer, a new request, much talk, a step's end and another's beginning."""
    run.says(e.ApprovalDecisionEvent(request_id="before", decision="allow", by="ben"))
    for number in range(300):
        run.agent_says("a", e.AssistantEvent(text=f"word {number}", message_id=f"m{number}"))
    run.moves("a", "completed", "in_progress")
    run.moves("b", "in_progress")
    run.says(structs.replace(ASKED, request_id="missed", subagent_step_id="b"))


def is_as_fresh(page: Page, browser: Browser, url: str) -> None:
    page.wait(status("b", "in_progress"))
    fresh = browser.page(url)
    fresh.wait(status("b", "in_progress"))
    fresh.wait("document.querySelector('article.card[data-request=missed]')")
    until(lambda: rows(page) == rows(fresh), 10)
    assert page.run("document.querySelector('#conn').textContent") == "live"
    assert not page.run("document.querySelector('article.card[data-request=before]')")


def opened(browser: Browser, url: str) -> Page:
    page = browser.page(url)
    page.wait("document.querySelector('article.card[data-request=before]')")
    return page


def seen(page: Page, *, hidden: bool) -> None:
    """Hide the tab, or show it again."""
    told = json.dumps(hidden)
    page.run(
        f"Object.defineProperty(document, 'hidden', {{ configurable: true, get: () => {told} }});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )


def passed(page: Page, seconds: float) -> None:
    page.wait(f"performance.now() > {page.run('performance.now()') + seconds * 1000}", seconds + 10)


async def in_thread(act: Callable[..., Any], *arguments: Any) -> Any:
    return await to_thread.run_sync(partial(act, *arguments))


async def test_after_half_a_minute_without_a_network(vibe: VibeCommand, browser: Browser) -> None:
    async with begun(vibe) as run:
        url = (await in_thread(served, vibe))["url"]
        cable = Cable(port_of(url))
        page = await in_thread(opened, browser, url.replace(f":{port_of(url)}/", f":{cable.port}/"))
        cable.cut()
        goes_on(run)

        def comes_back() -> None:
            page.wait("document.querySelector('#conn').textContent === 'reconnecting'")
            passed(page, CUT_SECONDS)
            assert page.run("document.querySelector('#conn').textContent").startswith("no answer")
            assert not page.run(status("b", "in_progress"))
            cable.is_cut = False
            is_as_fresh(page, browser, url)

        await in_thread(comes_back)
        cable.close()


async def test_after_the_server_was_started_again_on_its_port(vibe: VibeCommand, browser: Browser) -> None:
    async with begun(vibe) as run:
        url = (await in_thread(served, vibe))["url"]
        page = await in_thread(opened, browser, url)

        def stops() -> None:
            vibe.running[-1].send_signal(signal.SIGKILL)
            vibe.running[-1].wait()
            page.wait("document.querySelector('#conn').textContent === 'reconnecting'")

        await in_thread(stops)
        goes_on(run)
        again = (await in_thread(served, vibe, "--port", str(port_of(url))))["url"]

        def follows() -> None:
            page.wait("document.querySelector('#conn').textContent === 'open the link that vibe printed'")
            page.open(again)  # in the same tab
            is_as_fresh(page, browser, again)

        await in_thread(follows)


async def test_after_nobody_saw_the_tab(vibe: VibeCommand, browser: Browser) -> None:
    async with begun(vibe) as run:
        url = (await in_thread(served, vibe))["url"]
        page = await in_thread(opened, browser, url)

        def rests() -> None:
            seen(page, hidden=True)
            passed(page, REST_SECONDS + 1)

        await in_thread(rests)
        goes_on(run)

        def is_looked_at() -> None:
            fresh = browser.page(url)
            fresh.wait(status("b", "in_progress"))
            assert rows(page) != rows(fresh)  # it has no stream
            seen(page, hidden=False)
            is_as_fresh(page, browser, url)

        await in_thread(is_looked_at)


async def test_the_eighth_tab_answers_though_the_others_were_opened_behind_it(
    vibe: VibeCommand, browser: Browser
) -> None:
    async with begun(vibe) as run:
        url = (await in_thread(served, vibe, "--control"))["url"]

        def answers() -> None:
            for _ in range(7):
                page = browser.page()
                page.call("Page.addScriptToEvaluateOnNewDocument", source=HIDDEN)
                page.open(url)
            last = browser.page(url)
            card = "document.querySelector('article.card[data-request=before]')"
            last.wait(card, 2 * REST_SECONDS)
            last.wait(f"performance.now() - {card}.since > 500")
            last.click("article.card[data-request=before] .acts button")
            last.wait(f"!{card}?.querySelector('.acts button:not(:disabled)')", 5)

        await in_thread(answers)
        assert [command.request_id for command in run.taken if isinstance(command, Approve)] == ["before"]
