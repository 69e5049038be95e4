"""The faults of a model server: how each mock is told to produce them, and how ``vibe -p`` handles them.

One table: ``test_fault_matrix`` injects every row, and ``scripts/gen-references`` prints it as
docs/reference/model-faults.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vibe.core.llm.retry import RetryPolicy

Instruction = dict[str, Any]

ANSWER = "one two three four"
PROVIDER = "acme"
KEY_VARIABLE = "ACME_KEY"
SERVER = "http://SERVER"
"""Stands for the server's address in ``says``. There, ``…`` stands for words of the server's own."""
TRIED = " (tried 2 times)"

ONCE = RetryPolicy(initial_seconds=0.05, factor=10_000, unreached_seconds=20)
"""The first repetition comes at once. The second fits into no limit, however slow the machine is."""
ALWAYS = 9


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row: what the server does, how the run ends, and what the user reads.

    ``says`` is the reason of each announced repetition and, if the run did not complete, the detail of its record.
    ``llmock`` holds behaviours. ``aimock`` holds fixtures, the last of which serves all further requests. None means
    that the mock can't do it. Without either, nobody listens at the address.
    """

    name: str
    title: str
    outcome: str = "completed"
    exit_code: int = 0
    reason: str | None = None
    says: str = ""
    retries: int = 0
    retry_max_seconds: float = 20
    timeout_seconds: float = 30.0
    llmock: Sequence[Instruction] | None = None
    aimock: Sequence[Instruction] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return a pattern that matches ``says``."""
        return re.compile(".+".join(re.escape(part) for part in self.says.split("…")))

    @property
    def detail(self) -> str:
        """Return the detail in the record of a failed run."""
        return f"{self.says}{TRIED if self.retries else ''}" if self.exit_code else ""


def _status(status: int, message: str, times: int = ALWAYS, **more: Any) -> Instruction:
    return {"type": "fail", "status": status, "message": message, "times": times, **more}


def _stream(kind: str, after: int, times: int = 1) -> Instruction:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, "times": times}


def _error(status: int, message: str, **more: Any) -> Instruction:
    return {"response": {"error": {"message": message}, "status": status, **more}}


FINE: Instruction = {"response": {"content": ANSWER}, "chunkSize": 4}
SLOW: Instruction = {**FINE, "latency": 5}
READ_ARGUMENTS = {"path": "a.txt"}

REFUSED = f"provider '{PROVIDER}' answered with an error"
CUT = (
    f"provider '{PROVIDER}' cut the connection in the middle of an answer: …; check the network and api_base ({SERVER})"
)
SILENT = f"provider '{PROVIDER}' sent nothing for 2 s (timeout_seconds); check the network and api_base ({SERVER})"
NO_CHUNK = (
    f"provider '{PROVIDER}' sent an event that is not a completion chunk (…); try again, or check api_base ({SERVER})"
)
NO_STREAM = (
    f"provider '{PROVIDER}' sent an event that is not a completion chunk (JSON is malformed: …); "
    f"try again, or check api_base ({SERVER})"
)
NO_END = f"provider '{PROVIDER}' ended its answer without a finish_reason; try again, or check api_base ({SERVER})"
GONE = f"provider '{PROVIDER}' cannot be reached at {SERVER}: …; check the network and api_base ({SERVER})"
WAIT = "wait, or choose another model with --model or /model"

FAULTS = (
    Fault(
        name="limited",
        title="429 twice, with Retry-After",
        says=f"{REFUSED} (HTTP 429): slow down; {WAIT}",
        retries=2,
        llmock=[_status(429, "slow down", 2, retry_after=1)],
        aimock=[_error(429, "slow down", retryAfter=1), _error(429, "slow down", retryAfter=1), FINE],
    ),
    Fault(
        name="limited-for-long",
        title="429 that asks to wait longer than `retry_max_seconds`",
        outcome="limit",
        exit_code=4,
        reason="provider",
        says=f"{REFUSED} (HTTP 429): slow down; {WAIT}; it asks to wait 60 s, and retry_max_seconds allows … s in all",
        llmock=[_status(429, "slow down", retry_after=60)],
    ),
    Fault(
        name="500",
        title="500 once",
        says=f"{REFUSED} (HTTP 500): oops; {WAIT}",
        retries=1,
        llmock=[_status(500, "oops", 1)],
        aimock=[_error(500, "oops"), FINE],
    ),
    Fault(
        name="500-always",
        title="500 for longer than `retry_max_seconds`",
        outcome="failed",
        exit_code=3,
        reason="provider",
        says=f"{REFUSED} (HTTP 500): oops; {WAIT}",
        retries=1,
        llmock=[_status(500, "oops")],
    ),
    Fault(
        name="503",
        title="503 once",
        says=f"{REFUSED} (HTTP 503): busy; {WAIT}",
        retries=1,
        llmock=[_status(503, "busy", 1, retry_after=0)],
    ),
    Fault(
        name="refused",
        title="connection refused",
        outcome="failed",
        exit_code=3,
        reason="provider",
        says=GONE,
        retries=1,
    ),
    *(
        Fault(
            name=f"cut-{chunks}",
            title=f"connection cut after {chunks} chunk{'' if chunks == 1 else 's'}",
            says=CUT,
            retries=1,
            llmock=[_stream("disconnect", chunks)],
            aimock=[{**SLOW, "truncateAfterChunks": chunks}, FINE] if chunks == 3 else None,
        )
        for chunks in (0, 1, 3, 5)
    ),
    Fault(
        name="cut-always",
        title="connection cut for longer than `retry_max_seconds`",
        outcome="failed",
        exit_code=3,
        reason="provider",
        says=CUT,
        retries=1,
        llmock=[_stream("disconnect", 2, ALWAYS)],
    ),
    Fault(
        name="silent",
        title="stream that goes silent once, `timeout_seconds = 2`",
        says=SILENT,
        retries=1,
        timeout_seconds=2,
        llmock=[_stream("stall", 2)],
        aimock=[{**FINE, "latency": 20_000}, FINE],
    ),
    Fault(
        name="bad-json",
        title="chunk that is no JSON, once",
        says=NO_CHUNK,
        retries=1,
        llmock=[_stream("malformed", 2)],
    ),
    Fault(
        name="bad-json-always",
        title="chunk that is no JSON, twice",
        outcome="failed",
        exit_code=1,
        reason="model",
        says=NO_CHUNK,
        retries=1,
        llmock=[_stream("malformed", 2, ALWAYS)],
    ),
    Fault(
        name="no-stream",
        title="200 with malformed JSON, once",
        says=NO_STREAM,
        retries=1,
        aimock=[{**FINE, "chaos": {"malformedRate": 1}}, FINE],
    ),
    Fault(
        name="no-stream-always",
        title="200 with malformed JSON, twice",
        outcome="failed",
        exit_code=1,
        reason="model",
        says=NO_STREAM,
        retries=1,
        aimock=[{**FINE, "chaos": {"malformedRate": 1}}],
    ),
    Fault(
        name="bad-arguments",
        title="tool call whose arguments are no JSON",
        llmock=[
            {"type": "reply", "tool_calls": [{"name": "read_file", "arguments": READ_ARGUMENTS}]},
            {"type": "tool_fault", "kind": "malformed_arguments"},
        ],
        aimock=[{"response": {"toolCalls": [{"name": "read_file", "arguments": '{"path": '}]}}, FINE],
    ),
    Fault(
        name="no-finish-reason",
        title="answer that ends without a finish_reason, once",
        says=NO_END,
        retries=1,
        llmock=[_stream("truncate", 3)],
    ),
    Fault(
        name="no-finish-reason-always",
        title="answer that ends without a finish_reason, twice",
        outcome="failed",
        exit_code=1,
        reason="model",
        says=NO_END,
        retries=1,
        llmock=[_stream("truncate", 3, ALWAYS)],
    ),
    Fault(
        name="too-long",
        title="context too long, and nothing to summarise",
        outcome="failed",
        exit_code=1,
        reason="context",
        says=(
            f"{REFUSED} (HTTP 400): maximum context length is 8192 tokens; "
            "shorten the conversation, or choose a model with a larger context"
        ),
        llmock=[_status(400, "maximum context length is 8192 tokens")],
        aimock=[_error(400, "maximum context length is 8192 tokens")],
    ),
    Fault(
        name="401",
        title="401",
        outcome="failed",
        exit_code=3,
        reason="provider",
        says=f"{REFUSED} (HTTP 401): bad key; check {KEY_VARIABLE} and the account's credit",
        llmock=[_status(401, "bad key")],
        aimock=[_error(401, "bad key")],
    ),
    Fault(
        name="402",
        title="402",
        outcome="limit",
        exit_code=4,
        reason="provider",
        says=f"{REFUSED} (HTTP 402): no credit; check {KEY_VARIABLE} and the account's credit",
        llmock=[_status(402, "no credit")],
    ),
    Fault(
        name="no-credit",
        title="400 that says the credit is used up",
        outcome="limit",
        exit_code=4,
        reason="provider",
        says=f"{REFUSED} (HTTP 400): your credit balance is too low; check {KEY_VARIABLE} and the account's credit",
        llmock=[_status(400, "your credit balance is too low")],
    ),
    Fault(
        name="empty",
        title="empty answer, once",
        llmock=[{"type": "reply", "text": ""}],
    ),
    Fault(
        name="empty-always",
        title="empty answer, twice",
        outcome="failed",
        exit_code=1,
        reason="empty",
        says="the model answered with nothing, twice",
        llmock=[{"type": "reply", "text": "", "times": ALWAYS}],
    ),
)


def documented(fault: Fault) -> list[str]:
    """Return a row of the reference: fault, outcome, exit code, and what the user reads."""
    sentence = fault.says.replace(SERVER, "`api_base`")
    repeated = f"{fault.retries} repetition{'s' if fault.retries > 1 else ''} announced"
    read = "; ".join(part for part in (repeated if fault.retries else "", f"“{sentence}”" if sentence else "") if part)
    return [fault.title, f"`{fault.outcome}`", str(fault.exit_code), read or "the answer, as if nothing had happened"]
