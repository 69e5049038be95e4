"""The suite's watchdog works: a test fails if code of ours blocks a running loop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from blockbuster import BlockingError

import ipc


def run_as(filename: str) -> None:
    path = Path(ipc.__path__[0]) / filename
    code = compile("def append():\n    time.sleep(0)\nappend()", str(path), "exec")
    exec(code, {"time": time})  # noqa: S102  stands for a module of ours that blocks


async def test_our_code_may_not_block_the_loop() -> None:
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        run_as("slow.py")


async def test_the_journal_may_append() -> None:
    run_as("journal.py")


def test_without_a_loop_nothing_is_watched() -> None:
    run_as("slow.py")
