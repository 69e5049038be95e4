"""Front ends import the view before their first frame, so it imports little."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    *("anyio", "asyncio", "httpx", "jsonschema", "mcp", "mistralai", "networkx", "pathlib", "pydantic", "rich"),
    *("subprocess", "socket", "textual", "threading", "yaml", "ipc.codec", "planner.plan.model", "vibe.core.config"),
)


def test_the_view_brings_no_heavy_module() -> None:
    code = f"import sys, vibe.view.view; print(*(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
