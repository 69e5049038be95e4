"""Commands that only read a file do not load the modules that run agents, and no command searches what it has loaded.

Covers ``vibe.cli``, ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_prompt import turns

COUNT = """
import sys
from vibe.cli.main import main
try:
    main(sys.argv[1:])
finally:
    own = [name for name in sys.modules if name.partition(".")[0] in ("vibe", "ipc", "planner", "subagents")]
    assert not any(name.startswith("opentelemetry.sdk") for name in sys.modules)
    print(len(own), file=sys.__stderr__)
"""
PLAN = {"version": 1, "goal": "g", "steps": [{"id": "a", "title": "t", "mode": "run", "command": "true"}]}


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (10, ["plan", "run", "--help"]),
        (130, ["plan", "validate", "plan.json"]),
        (130, ["plan", "graph", "plan.json"]),
        (130, ["plan", "diff", "plan.json", "plan.json"]),
        (150, ["plan", "list"]),
        (110, ["doctor"]),
        (360, ["plan", "run", "plan.json", "--auto-approve"]),  # mostly its agents' tools and sandbox
        (290, ["-p", "go"]),
    ],
    ids=str,
)
def test_a_command_loads_no_more_than_it_needs(vibe: VibeCommand, most: int, words: list[str]) -> None:
    vibe.replay(turns({"text": "fine"}))
    (vibe.workdir / "plan.json").write_text(json.dumps(PLAN))

    ended = subprocess.run(
        [sys.executable, "-c", COUNT, *words],
        cwd=vibe.workdir,
        env=vibe.variables(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(ended.stderr.split()[-1]) <= most


SEARCHES = """
import gc, sys
from {module} import main
before = [generation["collections"] for generation in gc.get_stats()]
try:
    main(sys.argv[1:])
finally:
    after = [generation["collections"] for generation in gc.get_stats()]
    print(before == after, gc.get_freeze_count() > 10_000, file=sys.__stderr__)
"""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("vibe.cli.main", ["plan", "list"]),
        ("vibe.cli.main", ["plan", "run", "plan.json", "--auto-approve"]),
        ("vibe.cli.main", ["-p", "go"]),
        ("vibe.cli.acp_main", []),
    ],
    ids=str,
)
def test_what_a_command_loads_is_never_searched_for_garbage(vibe: VibeCommand, module: str, words: list[str]) -> None:
    vibe.replay(turns({"text": "fine"}))
    (vibe.workdir / "plan.json").write_text(json.dumps(PLAN))

    ended = vibe.run([sys.executable, "-c", SEARCHES.format(module=module), *words])

    assert ended.err.splitlines()[-1:] == ["True True"]
