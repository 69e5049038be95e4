"""The paths that a step's ``writes`` allow, and a step whose writes were all refused.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

WritePlan = Callable[..., str]

DONE = {"text": "done"}


def write(path: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "write_file", "arguments": {"path": path, "content": "new\n"}}]}


def run(vibe: VibeCommand, write_plan: WritePlan, writes: list[str], *paths: str) -> dict[str, Any]:
    vibe.replay({"agents": {"a": {"turns": [*map(write, paths), DONE]}}})
    plan = write_plan({"id": "a", "title": "A", "mode": "code", "prompt": "go", "writes": writes})
    return vibe("plan", "run", "--output", "json", plan).document


@pytest.mark.parametrize(
    ("writes", "path"),
    [
        ("app/[id]/page.tsx", "app/[id]/page.tsx"),
        ("app/[...slug]/*.ts", "app/[...slug]/a.ts"),
        ("app/(group)/[[x]]/a.ts", "app/(group)/[[x]]/a.ts"),
        ("src/{a,b}.txt", "src/b.txt"),
        ("{x}.txt", "{x}.txt"),
        ("src/**", "src/deep/er/a.txt"),
    ],
)
def test_a_step_may_write_what_it_names_literally_or_by_a_pattern(
    vibe: VibeCommand, write_plan: WritePlan, writes: str, path: str
) -> None:
    record = run(vibe, write_plan, [writes], path)

    assert (record["outcome"], record["exit_code"], record["denied"]) == ("completed", 0, [])
    assert (vibe.workdir / path).read_text() == "new\n"


def test_a_step_all_of_whose_writes_were_refused_has_failed(vibe: VibeCommand, write_plan: WritePlan) -> None:
    record = run(vibe, write_plan, ["src/*.txt"], "other.txt", "elsewhere/b.txt")

    assert (record["outcome"], record["exit_code"]) == ("failed", 1)
    (step,) = record["steps"]
    assert "every write was refused, so the step changed nothing" in step["detail"]
    assert not (vibe.workdir / "other.txt").exists()


def test_a_step_that_was_refused_one_write_and_made_another_is_done(vibe: VibeCommand, write_plan: WritePlan) -> None:
    record = run(vibe, write_plan, ["src/*.txt"], "other.txt", "src/a.txt")

    assert record["outcome"] == "completed"
    assert [one["tool"] for one in record["denied"]] == ["write_file"]
