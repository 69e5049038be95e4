"""Answers cut off by the output limit, as a real server reports it to both backends, in a prompt and in a plan's step.

Covers ``vibe.core.llm``, ``vibe.app.plan``.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply
from vibe.core.agent_loop import MAX_CUTS

PARTS = ("The first half of the story ends", "and the second one begins", "here")
WHOLE = "The first half of the story ends and the second one begins here"


@pytest.fixture(params=["mistral", "generic"])
def server(request: pytest.FixtureRequest, vibe: VibeCommand, server: ModelServer) -> ModelServer:
    backend = str(request.param)
    server.shape = "mistral" if backend == "mistral" else "openai"
    vibe.configure(
        f'active_model = "m"\n[[providers]]\nname = "local"\nbackend = "{backend}"\napi_base = "{server.api_base}"\n'
        '[[models]]\nname = "m"\nprovider = "local"\n'
    )
    return server


def cut(text: str) -> Reply:
    return Reply(text=text, finish_reason="length")


def never_ending(_request: Received) -> Reply:
    return cut(PARTS[0])


def test_a_prompt_is_answered_in_several_turns_and_no_bound_is_sent(vibe: VibeCommand, server: ModelServer) -> None:
    server.enqueue(cut(PARTS[0]), cut(PARTS[1]), Reply(text=PARTS[2]))

    ended = vibe("-p", "tell me a story")

    assert (ended.code, ended.out.split()) == (0, WHOLE.split())
    assert not any("max_tokens" in request.body for request in server.requests)


def test_a_prompt_whose_answer_never_ends_is_a_limit_with_what_there_is(vibe: VibeCommand, server: ModelServer) -> None:
    server.responder = never_ending

    ended = vibe("--output", "json", "-p", "tell me a story")

    record = ended.document
    assert (ended.code, record["outcome"], record["reason"]) == (4, "limit", "length")
    assert record["result"].startswith(PARTS[0])
    assert len(server.requests) == MAX_CUTS


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "never ends"])
def test_a_step_is_done_only_by_a_whole_answer(
    vibe: VibeCommand, server: ModelServer, write_plan: Callable[..., str], *, ends: bool
) -> None:
    def responder(_request: Received) -> Reply:
        return Reply(text=PARTS[2]) if ends and len(server.requests) == 3 else cut("part")

    server.responder = responder
    step = {"id": "tell", "title": "Tell", "mode": "research", "prompt": "Tell a story."}

    ended = vibe("plan", "run", write_plan(step), "--output", "json")

    (told,) = ended.document["steps"]
    if ends:
        assert (ended.code, told["status"], told["summary"].split()) == (0, "completed", ["part", "part", PARTS[2]])
    else:
        assert ended.code != 0
        assert (told["status"], told["reason"]) == ("failed", "length")
    assert json.dumps(told).count(PARTS[2]) == int(ends)
