"""The MCP server: how soon its tools are listed after its start, and what a call costs over the same prompt without it.

    python -m tests.benchmarks.bench_mcp_serve [--rounds N] [--json]

The client speaks the protocol by hand, so that no library of its own is measured. The model is a script. A prompt by
``call_vibe`` and one by a ``Conversation`` that is opened and closed for it take turns, in two warm processes. Medians
are printed beside their bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import anyio

from tests.fakes.mcp_client import RawClient
from vibe.app.conversation.opening import Opening
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.core.tools.permissions import ApprovalMode

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
LIST_MS, CALL_MS = 1_000.0, 60.0
CONFIG = """active_model = "m"
[[providers]]
name = "scripted"
backend = "scripted"
script = "{script}"
[[models]]
name = "m"
provider = "scripted"
"""


def listed(home: Path, folder: Path) -> float:
    """Return the milliseconds from the start of a server to the list of its tools."""
    began = time.perf_counter()
    client = _server(home, folder)
    try:
        client.greet()
        client.say(id=1, method="tools/list")
        assert client.hear()["result"]["tools"]
        return 1000 * (time.perf_counter() - began)
    finally:
        client.close()


def called(client: RawClient, number: int, folder: Path) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    client.call(number, "call_vibe", prompt="go", cwd=str(folder))
    assert client.hear()["result"]["structuredContent"]["status"] == "completed"
    return 1000 * (time.perf_counter() - began)


async def sent(runtime: Runtime, folder: Path) -> float:
    """Return the milliseconds of the same prompt in a conversation of this process."""
    began = time.perf_counter()
    opening = Opening(prompt="go", workdir=folder, approvals=ApprovalMode.ALL, wait_for_servers=True)
    conversation = await runtime.open_conversation(opening)
    await conversation.send("go")
    await conversation.aclose()
    return 1000 * (time.perf_counter() - began)


async def compared(home: Path, folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of calls, and of the same prompts without the server."""
    client = _server(home, folder)
    calls: list[float] = []
    prompts: list[float] = []
    try:
        client.greet()
        async with Runtime(Host(home=home, environ=os.environ)) as runtime:
            for number in range(rounds + 2):  # the first two warm both processes
                calls.append(await anyio.to_thread.run_sync(called, client, number + 1, folder))
                prompts.append(await sent(runtime, folder))
    finally:
        client.close()
    return calls[2:], prompts[2:]


def _server(home: Path, folder: Path) -> RawClient:
    environ = {**os.environ, "VIBE_HOME": str(home)}
    return RawClient([str(VIBE), "mcp", "serve", "--auto-approve"], environ, str(folder))


def main() -> int:
    """Measure, print, and return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="how often each (default: 15)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home, folder = Path(name) / "home", Path(name) / "work"
        home.mkdir()
        folder.mkdir()
        script = home / "script.json"
        script.write_text(json.dumps({"version": 1, "agents": {"main": {"turns": [{"text": "done"}]}}}))
        (home / "config.toml").write_text(CONFIG.format(script=script))
        lists = [listed(home, folder) for _ in range(given.rounds)]
        calls, prompts = anyio.run(compared, home, folder, given.rounds)
    over = statistics.median(calls) - statistics.median(prompts)
    document = {
        "listed_ms": round(statistics.median(lists), 1),
        "listed_worst_ms": round(max(lists), 1),
        "listed_bound_ms": LIST_MS,
        "call_ms": round(statistics.median(calls), 1),
        "prompt_ms": round(statistics.median(prompts), 1),
        "call_over_prompt_ms": round(over, 1),
        "call_over_prompt_bound_ms": CALL_MS,
    }
    if given.json:
        print(json.dumps(document))
    else:
        print(
            f"tools listed after exec  {document['listed_ms']:>7} ms  (worst {document['listed_worst_ms']}, bound 1000)"
        )
        print(f"a call over its prompt   {document['call_over_prompt_ms']:>7} ms  (bound 60)")
        print(f"  call {document['call_ms']} ms, prompt by Conversation {document['prompt_ms']} ms")
    return int(statistics.median(lists) > LIST_MS or over > CALL_MS)


if __name__ == "__main__":
    sys.exit(main())
