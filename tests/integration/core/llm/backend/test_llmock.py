"""Both HTTP backends against a model server written by others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anyio.to_thread
import pytest

from tests.fakes import model_mocks
from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.model_mocks import call
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.port import Completion, FinishReason
from vibe.core.messages import Message, ToolMessage, UserMessage

SCENARIO = {
    "behaviors": [
        {
            "type": "reply",
            "text": "I will read",
            "tool_calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}],
        },
        {"type": "fail", "status": 429, "retry_after": 0, "times": 1},
        {
            "type": "reply",
            "tool_calls": [
                {"name": "read_file", "arguments": {"path": "b.txt"}},
                {"name": "list_dir", "arguments": {"path": "."}},
            ],
        },
        {"type": "reply", "text": "all done"},
    ]
}


@pytest.fixture(scope="module")
def llmock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run llmock and yield its root URL."""
    with model_mocks.llmock(tmp_path_factory.mktemp("llmock")) as url:
        yield url


@pytest.mark.parametrize(
    ("kind", "path"), [(BackendKind.GENERIC, "/v1"), (BackendKind.MISTRAL, "/mistral/v1")], ids=["generic", "mistral"]
)
async def test_three_turns_with_tools_and_a_rate_limit(llmock: str, kind: BackendKind, path: str) -> None:
    await anyio.to_thread.run_sync(call, f"{llmock}/_llmock/reset", "")
    await anyio.to_thread.run_sync(call, f"{llmock}/_llmock/scenario", SCENARIO)
    provider = ProviderConfig(name="mock", backend=kind, api_base=llmock + path, api_key_env_var="MOCK_KEY")
    model = ModelConfig(name="m", provider="mock", input_price=1.0, output_price=2.0)
    catalog = ModelCatalog(
        VibeConfig(providers=(provider,), models=(model,), active_model="m"), {"MOCK_KEY": "sk-mock"}
    )
    backend = catalog.backend(catalog.resolve(None))
    seen = MemoryObserver()
    history: list[Message] = [UserMessage("go")]
    called: list[str] = []
    done: Completion | None = None
    while done is None or done.finish_reason is FinishReason.TOOL_CALLS:
        done = await backend.complete(request(*history, model=model), seen)
        history.append(done.message)
        for wanted in done.message.tool_calls:
            called.append(f"{wanted.name} {json.loads(wanted.arguments)['path']}")
            history.append(ToolMessage("content", wanted.id, wanted.name))
    await catalog.aclose()
    assert called == ["read_file a.txt", "read_file b.txt", "list_dir ."]
    assert (done.message.content, done.finish_reason) == ("all done", FinishReason.STOP)
    assert done.cost_usd is not None
    assert len(seen.notices) == 1
    assert "429" in seen.notices[0].reason
    verdict = await anyio.to_thread.run_sync(call, f"{llmock}/_llmock/verdict")
    assert verdict["passed"], verdict
