"""An account that runs empty under a plan of hundreds of agents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply

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
