"""The use cases of vibe.app can be called repeatedly in one process: only its owner handles signals and garbage."""

from __future__ import annotations

import ast

from tests.architecture.project import ROOT

OWNED = frozenset({"handled_signals", "open_signal_receiver", "freeze", "setrlimit"})
"""Functions that only the owner of a process may call."""
OWNERS = frozenset({"vibe/app/engine/host.py", "vibe/app/plan/child_main.py"})
"""The module through which an owner calls them, and the main program of a step's process."""


def called_in(source: str) -> set[str]:
    """Return the names of the functions that are called."""
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def test_a_use_case_takes_no_signals_and_leaves_the_garbage_alone() -> None:
    taken = {
        str(path.relative_to(ROOT)): sorted(names)
        for path in (ROOT / "vibe" / "app").rglob("*.py")
        if str(path.relative_to(ROOT)) not in OWNERS and (names := called_in(path.read_text()) & OWNED)
    }
    assert taken == {}
