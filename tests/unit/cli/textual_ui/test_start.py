"""Before the first frame, nothing is loaded that only the engine needs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    *(
        "pydantic",
        "httpx",
        "httpcore",
        "mistralai",
        "mcp",
        "jsonschema",
        "networkx",
        "pynng",
        "yaml",
        "tomlkit",
        "keyring",
    ),
    *("pygments", "markdown_it", "prompt_toolkit", "vibe.app.conversation.runtime", "vibe.app.plan.run"),
    *("planner.plan.model", "vibe.core.config.models", "vibe.core.agent_loop", "vibe.core.tools.manager"),
)
"""Textual's own text area brings tree-sitter, without a language."""


def test_the_first_frame_needs_nothing_of_the_engine() -> None:
    program = f"import sys; import vibe.cli.textual_ui.app; print([name for name in {HEAVY!r} if name in sys.modules])"

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"
