from __future__ import annotations

import gzip
import threading

import httpx2
import pytest
from anyio import to_thread

from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.web_server import Page, WebServer
from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.chat import GenericBackend
from vibe.core.llm.errors import ModelProtocolError
from vibe.system import http
from vibe.system.http import answer_to, client_options

EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'


@pytest.fixture(autouse=True)
def a_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 1_000_000)


@pytest.mark.parametrize("encoding", ["", "gzip", "gzip, gzip"])
async def test_no_answer_is_read_without_end(encoding: str) -> None:
    body = b"x" * 20_000_000
    for _ in filter(None, encoding.split(",")):
        body = gzip.compress(body)
    page = Page(body, headers={"Content-Encoding": encoding} if encoding else {}, endless=not encoding)
    with (
        WebServer({"/": page}).running() as server,
        pytest.raises(httpx2.DecodingError, match="it is longer than 1,000,000 bytes"),
    ):
        await to_thread.run_sync(answer_to, "GET", f"http://127.0.0.1:{server.port}/", 10.0)


async def test_of_a_refusal_the_beginning_is_read() -> None:
    with WebServer({"/": Page(b"x" * 10_000, 500, endless=True)}).running() as server:
        async with httpx2.AsyncClient(**client_options()) as client:
            answer = await client.get(f"http://127.0.0.1:{server.port}/")

    assert (answer.status_code, 64_000 < len(answer.content) < 200_000) == (500, True)


async def test_an_answer_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "WHOLE_SECONDS", 0.2)
    page = Page(wait=threading.Event())
    with WebServer({"/": page}).running() as server:
        address = f"http://127.0.0.1:{server.port}/"
        with pytest.raises(httpx2.ReadTimeout, match=r"no complete answer came within 0\.2 s"):
            await to_thread.run_sync(answer_to, "GET", address, 60.0)


@pytest.mark.parametrize("body", [EVENT * 1000, b": still there\n\n" * 1000])
async def test_a_model_that_never_ends_its_answer_is_refused(body: bytes) -> None:
    page = Page(body, headers={"Content-Type": "text/event-stream"}, endless=True)
    with WebServer({"/v1/chat/completions": page}).running() as server:
        provider = ProviderConfig(name="p", api_base=f"http://127.0.0.1:{server.port}/v1")
        backend = GenericBackend(provider, api_key=None)
        with pytest.raises(ModelProtocolError, match="sent an answer that cannot be read: it is longer than 1,000,000"):
            await backend.complete(request(), MemoryObserver())
        await backend.aclose()
