"""The examples in the guide to reports and reuse.

Covers ``planner.report``, ``planner.reuse``.
"""

from __future__ import annotations

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_docs import blocks, shell

GUIDE = "docs/guide/reports-and-reuse.md"


def test_the_guides_session_runs_from_top_to_bottom(vibe: VibeCommand) -> None:
    (vibe.workdir / "checks.json").write_text(blocks(GUIDE, "json")[0].text)
    script = "\n".join(block.text for block in blocks(GUIDE, "sh"))

    ended = shell(vibe, script)

    assert (ended.returncode, ended.stderr) == (0, "")
    for said in (
        "Nothing was run.",
        "= lint\n= unit\n= say\n",
        "1 of 3 steps reused from plan",
        "to run: unit (failed there), say (not done there)",
        "to run: unit; left out: lint, say",
    ):
        assert said in ended.stdout
    for name, beginning in (
        ("checks.svg", "<?xml"),
        ("out.html", "<!doctype html>"),
        ("out.md", "# Check the project"),
        ("out.json", "{"),
    ):
        assert (vibe.workdir / name).read_text().startswith(beginning)
