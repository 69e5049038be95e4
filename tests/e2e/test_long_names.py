"""Names too long for the disk, in the calls of a model: each tool says so, and the run goes on.

Covers ``vibe.core.tools``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_prompt import turns

LONG = "n" * 300
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read_file", {}),
    ("list_dir", {}),
    ("grep", {"pattern": "x"}),
    ("glob", {"pattern": "*"}),
    ("write_file", {"content": "x"}),
    ("search_replace", {"old_string": "x", "new_string": "y"}),
)


@pytest.mark.parametrize("path", [LONG, f"{LONG}/x", "d/" * 3000], ids=["file", "folder", "path"])
def test_a_name_too_long_for_the_disk_ends_no_run(vibe: VibeCommand, path: str) -> None:
    asked = [{"name": name, "arguments": {**more, "path": path}} for name, more in CALLS]
    vibe.replay(turns({"tool_calls": asked}, {"text": "done"}))

    ended = vibe("--auto-approve", "-p", "go")

    assert (ended.code, ended.out) == (0, "done\n")
    (transcript,) = (vibe.home / "logs" / "session").glob("*/messages.jsonl")
    messages = [json.loads(line) for line in transcript.read_text().splitlines()]
    answers = [message["content"] for message in messages if message.get("role") == "tool"]
    assert ["File name too long" in answer for answer in answers] == [True] * len(CALLS)
    assert max(map(len, answers)) < 500
