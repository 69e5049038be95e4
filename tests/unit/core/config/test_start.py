"""Every start loads the configuration, so loading is quick and imports little."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.unit.core.config.surroundings import Surroundings

HEAVY = (
    "anyio",
    "asyncio",
    "difflib",
    "httpx",
    "jsonschema",
    "keyring",
    "mcp",
    "mistralai",
    "networkx",
    "rich",
    "textual",
    "tomlkit",
    "yaml",
)


def test_loading_brings_no_heavy_library() -> None:
    code = f"import sys, vibe.core.config.loader; print(*(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_without_files_loading_takes_less_than_five_milliseconds(surroundings: Surroundings) -> None:
    surroundings.load()
    started = time.process_time()
    for _ in range(20):
        surroundings.load()
    assert (time.process_time() - started) / 20 < 0.005
