"""A local model's server is found, started once, used, and ended when unused or when its parent dies."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from tests.architecture.project import ROOT
from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.model_server import ModelServer, Reply
from vibe.core.config.models import BackendKind, LocalConfig, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.backend.local import LocalBackend
from vibe.core.llm.backend.local_server import LocalModelError, LocalServers, problem_with
from vibe.core.llm.errors import ModelAccessError
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.port import ToolSchema

PROVIDER = ProviderConfig(name="local", backend=BackendKind.LOCAL)
HAS_EXTRA = importlib.util.find_spec("xllamacpp") is not None
SERVES = 'import sys; sys.stdin.readline(); print(\'{"address": "%s"}\', flush=True); sys.stdin.read()'
READY = ToolSchema(name="ready", description="Say so.", parameters={"type": "object", "properties": {}})


def servers(program: str) -> LocalServers:
    """Return servers that run another program, for a model at the path in the settings."""
    return LocalServers(
        [sys.executable, "-I", "-c", program],
        lambda settings: settings.model_copy(update={"threads": 1}),
    )


def noting(note: Path, address: str) -> str:
    """Return a program that adds its pid to a file, and then prints an address."""
    return f"import os; open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n'); {SERVES % address}"


def has_ended(pid: int) -> bool:
    """Return True if a process ends within ten seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    return bool(ready)


@pytest.fixture
def served() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def test_one_server_serves_all_who_want_the_same_model(tmp_path: Path) -> None:
    all_of_them, settings = servers(noting(tmp_path / "pids", "http://here")), LocalConfig(model_path="m")
    first, second = (all_of_them.acquire(settings, 30) for _ in range(2))
    assert first is second
    assert first.address == "http://here"

    all_of_them.release(first)
    assert first.is_alive
    all_of_them.release(second)
    assert not first.is_alive
    other = all_of_them.acquire(settings, 30)
    all_of_them.release(other)
    assert len(set((tmp_path / "pids").read_text().split())) == 2


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.exit(3)", "can't be served: it ended with exit code 3"),
        ('print(\'{"problem": "RuntimeError: no"}\')', "can't be served: RuntimeError: no"),
        (
            "import sys; sys.stderr.write('0 E gguf: x\\n0 E load: error loading model: bad magic\\n'); sys.exit(1)",
            "can't be served: load: error loading model: bad magic",
        ),
        ("import sys; sys.stdin.read()", "was not loaded within 0.5 s: set timeout_seconds"),
    ],
)
def test_a_server_that_does_not_come_says_why(program: str, told: str) -> None:
    with pytest.raises(LocalModelError, match=told):
        servers(program).acquire(LocalConfig(model_path="m"), 0.5 if "0.5" in told else 30)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is no descriptor of a process")
def test_a_server_ends_with_a_parent_that_is_killed() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from vibe.core.config.models import LocalConfig\n"
        "from vibe.core.llm.backend.local_server import LocalServer\n"
        "model = LocalConfig(model_path='m', context=1, threads=1)\n"
        f"server = LocalServer(model, [sys.executable, '-I', '-c', {SERVES % 'x'!r}], 30)\n"
        "print(server._process.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.send_signal(signal.SIGKILL)

    assert has_ended(pid)


async def test_a_call_starts_the_server_and_closing_stops_it(served: ModelServer, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    backend = LocalBackend(PROVIDER, LocalConfig(model_path="m"), servers(noting(note, served.url)))
    assert not note.exists()
    served.enqueue(Reply(text="hello"), Reply(text='{"name": "ready", "arguments": {}}'))
    seen = MemoryObserver()

    said = await backend.complete(request(), seen)
    called = await backend.complete(replace(request(), tools=[READY]), seen)
    await backend.aclose()

    assert said.message.content.strip() == "hello"
    assert [call.name for call in called.message.tool_calls] == ["ready"]
    first, second = served.requests
    assert first.path == "/v1/chat/completions"
    assert len(first.headers["authorization"]) > len("Bearer ") + 20
    assert first.headers["authorization"] == second.headers["authorization"]
    assert first.connection != second.connection, "a connection kept open may be dropped as it is used again"
    (pid,) = note.read_text().split()
    assert has_ended(int(pid))


async def test_a_server_that_died_is_started_again(served: ModelServer, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    backend = LocalBackend(PROVIDER, LocalConfig(model_path="m"), servers(noting(note, served.url)))
    served.enqueue(Reply(text="one"), Reply(text="two"))
    await backend.complete(request(), MemoryObserver())
    pid = int(note.read_text())
    os.kill(pid, signal.SIGKILL)
    assert await anyio.to_thread.run_sync(has_ended, pid)

    again = await backend.complete(request(), MemoryObserver())
    await backend.aclose()

    assert again.message.content.strip() == "two"
    assert len(note.read_text().split()) == 2


async def test_a_server_that_does_not_come_is_an_error_of_the_provider() -> None:
    backend = LocalBackend(PROVIDER, LocalConfig(model_path="m"), servers("import sys; sys.exit(3)"))

    with pytest.raises(ModelAccessError, match="'m' can't be served: it ended") as caught:
        await backend.complete(request(), MemoryObserver())
    await backend.aclose()

    assert (caught.value.provider, caught.value.retryable) == ("local", False)


def test_without_the_extra_it_is_told_how_to_install_it(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.touch()

    assert "pip install 'vibe-orchestrator[local]'" in (problem_with(LocalConfig(model_path=str(path))) or "")


@pytest.mark.local_model
@pytest.mark.skipif(not HAS_EXTRA, reason="the extra is not installed")
def test_a_file_that_is_missing_or_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"version https://git-lfs")

    assert "no file '/no/such.gguf'" in (problem_with(LocalConfig(model_path="/no/such.gguf")) or "")
    assert "m.gguf' is not a GGUF file" in (problem_with(LocalConfig(model_path=str(tmp_path / "m.gguf"))) or "")


def test_the_catalog_knows_the_backend() -> None:
    model = ModelConfig(name="m", provider="local")
    catalog = ModelCatalog(VibeConfig(providers=(PROVIDER,), models=(model,), active_model="m"), {})

    assert catalog.backend(model) is catalog.backend(model)
