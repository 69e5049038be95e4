"""``import vibe.sdk``: its cost, what it leaves alone, and its message where other modules hide ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import vibe.sdk
from tests.architecture.project import PACKAGES, ROOT

HEAVY = {"httpx", "jsonschema", "mcp", "mistralai", "networkx", "pydantic", "pynng", "rich", "textual", "tree_sitter"}
LOADED = """import sys, logging
before = set(sys.modules)
import vibe.sdk
print(__import__("json").dumps([sorted(set(sys.modules) - before), len(logging.getLogger().handlers)]))
"""
LIBRARIES = """import logging
import vibe.sdk, subagents.cluster.client, vibe.app.telemetry
libraries = [logging.getLogger(name) for name in ("distributed.scheduler", "opentelemetry.sdk")]
for one in libraries:
    one.error("unheard")
logging.basicConfig()
for one in libraries:
    one.info("idle")
    one.error("heard")
"""


def run(script: str, folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run a program's script in a folder."""
    (folder / "program.py").write_text(script)
    environ = {"PYTHONPATH": ":".join(map(str, [*paths, ROOT])), "PATH": ""}
    return subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def test_the_import_brings_no_engine(tmp_path: Path) -> None:
    done = run(LOADED, tmp_path)

    loaded, handlers = json.loads(done.stdout)
    ours = [name for name in loaded if name.partition(".")[0] in PACKAGES]
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)
    assert len(ours) <= 26, ours
    assert len(loaded) <= 330
    assert handlers == 0
    assert done.stderr == ""


def test_libraries_say_nothing_on_a_programs_streams_and_only_what_is_serious_to_its_log(tmp_path: Path) -> None:
    done = run(LIBRARIES, tmp_path)

    assert (done.stdout, done.stderr) == ("", "ERROR:distributed.scheduler:heard\nERROR:opentelemetry.sdk:heard\n")


@pytest.mark.parametrize("name", ["ipc", "planner", "subagents"])
def test_a_module_of_the_program_that_stands_before_ours_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("")

    done = run("import vibe.sdk", tmp_path)

    assert done.returncode == 1
    told = (
        f"ImportError: vibe has a package {name!r} of its own, but {tmp_path / name}.py stands before it: rename that"
    )
    assert told in done.stderr


def test_every_name_is_there_and_an_unknown_one_is_not() -> None:
    names = {name: getattr(vibe.sdk, name) for name in vibe.sdk.__all__}

    assert None not in names.values()
    with pytest.raises(AttributeError, match="querry"):
        vibe.sdk.querry  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_the_packages_say_that_they_are_typed() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "py.typed").is_file()] == []
