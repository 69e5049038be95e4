"""Accounts without credit, and networks that go away, under a plan of many agents.

Covers ``vibe.core.llm``, ``vibe.app.plan``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply
from tests.fakes.ports import free_port

STEPS = 200
PARALLEL = 16
PAID_CALLS = 2
NO_CREDIT = Reply(status=402, body=json.dumps({"error": {"message": "insufficient credit", "code": 402}}))


def test_the_plan_pauses_when_the_credit_ends_and_goes_on_with_new_credit(
    vibe: VibeCommand, write_plan: Callable[..., str]
) -> None:
    numbers, credit = count(1), PAID_CALLS

    def answer(request: Received) -> Reply:
        assert request.body["messages"]
        return Reply(text="done") if next(numbers) <= credit else NO_CREDIT

    steps: list[dict[str, Any]] = [{"id": f"s{n}", "title": f"Step {n}", "mode": "research"} for n in range(STEPS)]
    with ModelServer(responder=answer) as server:
        vibe.configure(
            'active_model = "m"\n[[providers]]\nname = "here"\nbackend = "generic"\n'
            f'api_base = "{server.api_base}"\n[[models]]\nname = "m"\nprovider = "here"\n'
        )
        ended = vibe("plan", "run", write_plan(*steps), "--max-parallel", str(PARALLEL), "--output", "streaming")
        asked = len(server.requests)

        record = ended.lines[-1]
        started = {line["step_id"] for line in ended.lines if line.get("status") == "in_progress"}
        assert (ended.code, record["outcome"], record["exit_code"]) == (4, "limit", 4), ended.err
        assert "insufficient credit" in json.dumps(record)
        assert PAID_CALLS < asked <= PARALLEL + PAID_CALLS, "each running step asks once more, and no other one starts"
        assert len(started) == asked
        statuses = Counter(step["status"] for step in record["steps"])
        assert statuses == {"completed": PAID_CALLS, "pending": STEPS - PAID_CALLS}

        credit = 10 * STEPS
        resumed = vibe("plan", "resume", record["plan_id"], "--output", "json")

        assert resumed.code == 0, resumed.err
        assert Counter(step["status"] for step in resumed.document["steps"]) == {"completed": STEPS}
        assert len(server.requests) == asked + STEPS - PAID_CALLS, "no completed step is repeated"


def configure(vibe: VibeCommand, api_base: str) -> None:
    vibe.configure(
        f'active_model = "m"\n[[providers]]\nname = "here"\nbackend = "generic"\napi_base = "{api_base}"\n'
        'retry_max_seconds = 0.2\n[[models]]\nname = "m"\nprovider = "here"\n'
    )


AWAY = {"busy": Reply(status=503, body="{}"), "cut": Reply(text="do", cut_after=1), "gone": None}


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("away", AWAY.values(), ids=AWAY)
def test_a_provider_that_does_not_answer_pauses_the_plan_which_goes_on_where_it_stood(
    vibe: VibeCommand, write_plan: Callable[..., str], away: Reply | None, executor: str
) -> None:
    numbers, port, is_away = count(1), free_port(), True

    def answer(_: Received) -> Reply:
        return away if away is not None and is_away and next(numbers) > PAID_CALLS else Reply(text="done")

    steps: list[dict[str, Any]] = [
        {"id": f"s{n}", "title": f"Step {n}", "mode": "research", "on_failure": "continue"} for n in range(5)
    ]
    words = ("--max-parallel", "2", "--executor", executor, "--auto-approve")
    with ModelServer(responder=answer) as server:
        configure(vibe, server.api_base if away else f"http://127.0.0.1:{port}/v1")
        paused = vibe("plan", "run", write_plan(*steps), *words)
        (plan_id,) = vibe.plan_ids()
        record = vibe("plan", "status", plan_id, "--output", "json").document
        done = [step for step in record["steps"] if step["status"] == "completed"]
        assert (paused.code, record["status"], len(done)) == (3, "paused", PAID_CALLS if away else 0), paused.err
        assert {step["status"] for step in record["steps"]} <= {"completed", "pending"}
        assert "provider 'here'" in paused.out + paused.err
        assert f"continue with: vibe plan resume {plan_id}" in paused.out + paused.err

        is_away = False
        configure(vibe, server.api_base)
        resumed = vibe("plan", "resume", plan_id, "--output", "json", "--executor", executor)

        assert resumed.code == 0, resumed.err
        assert [(step["status"], step["attempts"]) for step in resumed.document["steps"]] == [("completed", 1)] * 5


def test_a_prompt_without_an_answer_says_how_to_go_on(vibe: VibeCommand) -> None:
    configure(vibe, f"http://127.0.0.1:{free_port()}/v1")

    ended = vibe("-p", "go")

    assert ended.code == 3
    assert "cannot be reached" in ended.err
    assert "continue with: vibe -p --resume " in ended.err
