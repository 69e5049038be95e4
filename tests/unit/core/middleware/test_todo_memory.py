from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.fakes.engine import Bench
from tests.fakes.models import MODEL, answer, calling
from vibe.core.llm.port import Completion
from vibe.core.messages import Message, ToolMessage, Usage
from vibe.core.session.folder import Transcript

READ = calling(("todo", {"action": "read"}))
SMALL = MODEL.model_copy(update={"auto_compact_threshold": 4_000})


def writing(*contents: str, **more: Any) -> Completion:
    todos = [{"id": str(number), "content": content, **more} for number, content in enumerate(contents)]
    return calling(("todo", {"action": "write", "todos": todos}))


def full(completion: Completion) -> Completion:
    """Return the same answer, with the conversation at its maximum length after it."""
    return Completion(
        message=completion.message,
        finish_reason=completion.finish_reason,
        usage=Usage(4_200, 10, 0, 1),
        cost_usd=completion.cost_usd,
    )


async def talk(root: Path, path: Path, *answers: Completion) -> None:
    """Run one process's part of the conversation at ``path``."""
    conversation = await anyio.to_thread.run_sync(Transcript.open, path)
    bench = Bench(root=root, answers=[*answers, answer("done")], model_config=SMALL, transcript=conversation)
    await bench.loop.act("go on")


async def said(path: Path) -> list[Message]:
    return (await anyio.to_thread.run_sync(Transcript.peek, path)).messages


async def last_result(path: Path) -> str:
    return next(m.content for m in reversed(await said(path)) if isinstance(m, ToolMessage))


async def test_the_list_is_there_when_a_conversation_is_taken_up_again(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    await talk(tmp_path, path, writing("old"), writing("write the lexer"), READ)

    await talk(tmp_path, path, READ)

    assert "write the lexer" in await last_result(path)
    assert "old" not in await last_result(path)


async def test_a_list_that_was_refused_was_never_there(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    await talk(tmp_path, path, writing("good"), writing("one", "two", status="in_progress"))

    await talk(tmp_path, path, READ)

    assert "good" in await last_result(path)
    assert "two" not in await last_result(path)


async def test_a_list_that_was_cleared_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    await talk(tmp_path, path, writing("a"), writing())

    await talk(tmp_path, path, READ)

    assert await last_result(path) == "the list is empty"


@pytest.mark.parametrize("processes", [1, 2], ids=["in the same process", "taken up again"])
async def test_the_list_survives_a_summary(tmp_path: Path, processes: int) -> None:
    path = tmp_path / "messages.jsonl"
    work = [calling(("bash", {"command": f"echo {turn}"})) for turn in range(3)]
    first = [writing("write the lexer", priority="high"), *work[:2], full(work[2]), answer("SUMMARY")]
    if processes == 1:
        await talk(tmp_path, path, *first, READ)
    else:
        await talk(tmp_path, path, *first)
        assert not any("write the lexer" in str(m) for m in (await said(path))[1:]), "its call is gone"
        await talk(tmp_path, path, READ)

    assert "[ ] 0 (high): write the lexer" in await last_result(path)


async def test_a_second_summary_does_not_forget_what_the_first_remembered(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    work = [calling(("bash", {"command": f"echo {turn}"})) for turn in range(6)]
    await talk(tmp_path, path, writing("write the lexer"), *work[:2], full(work[2]), answer("SUMMARY"))
    await talk(tmp_path, path, *work[3:5], full(work[5]), answer("SUMMARY"))

    await talk(tmp_path, path, READ)

    assert "write the lexer" in await last_result(path)
