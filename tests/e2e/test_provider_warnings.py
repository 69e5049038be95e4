"""A provider's faults, as the record reports them, and a provider that cannot be reached.

Covers ``vibe.core.llm``, ``vibe.core.config``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.ports import free_port


def configure(vibe: VibeCommand, backend: str, api_base: str) -> None:
    vibe.configure(
        f'active_model = "m"\n[[providers]]\nname = "local"\nbackend = "{backend}"\napi_base = "{api_base}"\n'
        '[[models]]\nname = "m"\nprovider = "local"\n'
    )


@pytest.fixture(params=["mistral", "generic"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(vibe: VibeCommand, backend: str, server: ModelServer) -> ModelServer:
    server.shape = "mistral" if backend == "mistral" else "openai"
    configure(vibe, backend, server.api_base)
    return server


def test_the_record_warns_of_what_was_said_on_stderr(vibe: VibeCommand, server: ModelServer) -> None:
    server.enqueue(Reply(status=500, body='{"error": {"message": "oops"}}'), Reply(text="here", finish_reason=""))

    record = vibe("--output", "json", "-p", "go").document

    assert (record["outcome"], record["exit_code"]) == ("completed", 0)
    assert len(record["warnings"]) == 2
    assert "oops" in record["warnings"][0]
    assert "without a finish_reason" in record["warnings"][1]


def test_a_plans_record_does_so_too(vibe: VibeCommand, server: ModelServer, write_plan: Callable[..., str]) -> None:
    server.enqueue(Reply(status=500, body='{"error": {"message": "oops"}}'), Reply(text="here"))
    plan = write_plan({"id": "a", "title": "Look", "mode": "research"})

    record = vibe("plan", "run", plan, "--output", "json").document

    assert [("oops" in warning) for warning in record["warnings"]] == [True]


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"])
def test_an_address_where_nobody_is_fails_soon_and_says_what_to_check(
    vibe: VibeCommand, backend: str, address: str
) -> None:
    configure(vibe, backend, address.format(port=free_port()))
    began = time.monotonic()

    ended = vibe("-p", "go")

    assert (ended.code, ended.out) == (3, "")
    assert time.monotonic() - began < 60  # less than retry_max_seconds, which is 300
    last, how_to_go_on = ended.err.splitlines()[-2:]
    assert how_to_go_on.startswith("continue with: vibe -p --resume ")
    assert "cannot be reached at http://" in last
    assert "check the network and api_base" in last
