from __future__ import annotations

import pytest
from msgspec import Raw

from ipc.events import ApprovalRequestEvent
from subagents.executor import StepInput, StepResult
from subagents.process.protocol import (
    Asked,
    Begin,
    Ended,
    Granted,
    Hello,
    LedgerRoom,
    LinkError,
    MismatchError,
    PersonsAnswer,
    Prepare,
    Refused,
    Returned,
    ToStep,
    encode,
    from_step,
    to_step,
)
from tests.fakes.tasks import task_of
from vibe.core.messages import Denial, Outcome, Usage
from vibe.core.tools.ports import ApprovalAnswer

REQUEST = ApprovalRequestEvent(
    request_id="r", tool_call_id="c", tool="bash", arguments={"command": "ls"}, summary="ls", rule="ask", reason="new",
    covers=("bash: ls",),
)  # fmt: skip
RESULT = StepResult(
    outcome=Outcome.BLOCKED, reason="blocked", output={"a": [1, None]}, usage=Usage(1, 2, 3, 4), cost_usd=0.5,
    denied=(Denial("bash", "ls", "no", "headless"),), files_changed=("a.py",),
)  # fmt: skip
TASK = task_of(
    verify=("true",),
    output_schema={"type": "object"},
    workdir="/w",
    inputs=(StepInput(step_id="b", title="B", status="completed", summary="ü\n", output=[1]),),
)


@pytest.mark.parametrize(
    "message",
    [
        Asked(1, LedgerRoom(model="m", provider="p", input_price=None, output_price=2.0, prompt_tokens=1, wanted_tokens=2)),
        Asked(2, PersonsAnswer(request=REQUEST)),
        Returned(3, Usage(1, 1, 0, 1), None, ("k",)),
        Ended(RESULT),
    ],
)  # fmt: skip
def test_what_a_step_says_arrives_as_it_was_said(message: Asked | Returned | Ended) -> None:
    assert from_step(encode(message).rstrip(b"\n")) == message


@pytest.mark.parametrize(
    "message",
    [
        Begin(TASK, Usage(1, 2, 3, 4), 0.25),
        Granted(1, 64, Usage(1, 1, 0, 1), None, ("k",), ApprovalAnswer(allow=True, scope="session"), ({},)),
        Refused(2, "no", account="the plan", limit="max_tokens 1", spent="1 tokens"),
    ],
)
def test_what_a_run_says_arrives_as_it_was_said(message: ToStep) -> None:
    assert to_step(encode(message).rstrip(b"\n")) == message


def test_a_document_goes_through_as_it_is() -> None:
    message = to_step(encode(Prepare(Raw(b'{"a": "\xc3\xbc"}'))).rstrip(b"\n"))

    assert isinstance(message, Prepare)
    assert bytes(message.document) == b'{"a": "\xc3\xbc"}'


def test_a_hello_of_any_version_is_understood() -> None:
    assert from_step(b'{"type":"hello","version":7,"vibe":"8.1","gpus":2}') == Hello(version=7, vibe="8.1")
    assert from_step(b'{"type":"hello","version":0}') == Hello(version=0)


def test_an_end_that_lacks_what_is_needed_is_told_what() -> None:
    ours, theirs = Hello.own(()), Hello.own(("agents", "git"))
    ours.check(theirs, needed=("agents",))

    with pytest.raises(MismatchError, match="cannot do gpus, bwrap: use one that can"):
        ours.check(theirs, needed=("gpus", "agents", "bwrap"))


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"[1]", b'{"type":"shout"}', b'{"type":"ended"}', b"\xff\xfe", b"[" * 100_000]
)
def test_garbage_is_no_message(line: bytes) -> None:
    with pytest.raises(LinkError):
        from_step(line)
