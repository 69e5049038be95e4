"""Every plan of the gallery runs as its page says, with a replay in place of a model.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand

EXAMPLES = REPOSITORY / "plans-examples"
PLANS = {
    path.stem: plan
    for path in sorted(EXAMPLES.glob("*.json"))
    if "teaches" in (plan := json.loads(path.read_text(encoding="utf-8"))).get("metadata", {})
}
COSTS = re.compile(r"(?P<calls>\d+) model calls?, about (?P<thousands>\d+)k tokens")
MODEL = """
[[providers]]
name = "{name}"
backend = "scripted"
script = "{script}"
[[models]]
name = "{name}"
provider = "{name}"
"""
ENDED: dict[str, tuple[int, dict[str, str]]] = {
    "fix-tests": (0, {"tests": "failed"}),
    "nightly": (1, {"tests": "failed"}),
    "release": (0, {"publish": "skipped"}),
}
"""The exit code, and the steps that do not end as completed."""


CHANGED = {
    "docs-from-code": ["README.md", "units/length.py"],
    "fix-tests": ["cart/prices.py"],
    "ladder": ["durations.py"],
    "migrate": ["towns/lima.py", "towns/oslo.py", "towns/paris.py"],
    "refactor": ["shapes.py", "shapes/__init__.py", "shapes/circle.py", "shapes/square.py"],
    "release": ["CHANGELOG.md", "VERSION", "changes/formal.md"],
    "rename": ["README.md", "shop.py", "tests/test_shop.py"],
}


def surroundings(name: str, vibe: VibeCommand) -> list[str]:
    """Set up a plan without a sample: its project as a repository, and each script as a model of the same name."""
    project = vibe.workdir / name
    shutil.copytree(EXAMPLES / name / "project", project)
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
        subprocess.run(("git", *words), cwd=project, check=True)
    scripts = sorted((EXAMPLES / name).glob("*.yaml"))
    models = "".join(MODEL.format(name=script.stem, script=script) for script in scripts)
    vibe.configure(f'active_model = "{scripts[0].stem}"\n{models}')
    return ["--workdir", str(project)]


def run(name: str, vibe: VibeCommand) -> tuple[int, dict[str, Any]]:
    """Run a plan with the words on its page, and return the exit code and the record."""
    plan = PLANS[name]
    words = ["plan", "run", str(EXAMPLES / f"{name}.json"), *shlex.split(plan["metadata"]["run"]), "--output", "json"]
    ended = vibe(*words, *([] if "sample" in plan else surroundings(name, vibe)))
    return ended.code, json.loads(ended.out)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_the_gallery_runs_as_its_page_says(name: str, vibe: VibeCommand) -> None:
    code, record = run(name, vibe)

    wanted, others = ENDED.get(name, (0, {}))
    assert code == wanted
    assert {step["id"]: step["status"] for step in record["steps"] if step["status"] != "completed"} == others
    assert sorted({file for step in record["steps"] for file in step["files_changed"]}) == CHANGED.get(name, [])
    said = COSTS.fullmatch(PLANS[name]["metadata"]["costs"])
    assert said, "metadata.costs: 'N model calls, about Nk tokens'"
    usage = record["usage"]
    assert usage["calls"] == int(said["calls"])
    assert usage["prompt_tokens"] + usage["completion_tokens"] == pytest.approx(1000 * int(said["thousands"]), rel=0.4)


def test_the_program_of_the_gallery_does_its_own_steps(vibe: VibeCommand) -> None:
    path = vibe.workdir / "mine.csv"
    path.write_text("1.0\n1.1\n0.9\n99\n1.05\n")

    ended = vibe.run([sys.executable, str(EXAMPLES / "functions.py"), str(path)])

    assert (ended.code, ended.out, ended.err) == (0, "4 of 5 kept\n", "")
    assert (vibe.workdir / "clean.csv").read_text() == "1.0\n1.1\n0.9\n1.05\n"
