"""Hooks as real processes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.unit.core.tools.watching import gone, pid_in
from vibe.core.guidance import ShellHooks
from vibe.core.hooks.runner import Hook, HookEvent
from vibe.shell.errors import CommandStartError
from vibe.shell.sandbox.temporary import PREFIX


def hook(command: str, *, timeout: float = 120, project_dir: Path | None = None) -> Hook:
    return Hook(
        name="h", event=HookEvent.BEFORE_TOOL, command=command, timeout_seconds=timeout, project_dir=project_dir
    )


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellHooks:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return ShellHooks(tmp_path, {"PATH": os.environ["PATH"], "MY_API_KEY": "secret", "PLAIN": "yes"})


async def test_a_hook_reads_its_payload_and_answers(hooks: ShellHooks, tmp_path: Path) -> None:
    run = await hooks.run(hook("cat; echo oops >&2; exit 2"), '{"tool": "bäsh"}')
    assert (run.exit_code, run.stdout, run.stderr) == (2, '{"tool": "bäsh"}', "oops\n")
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_what_a_hook_reads_lies_where_a_later_run_finds_it_after_a_kill(hooks: ShellHooks) -> None:
    run = await hooks.run(hook("ls scratch"), "payload")
    assert [name.startswith(PREFIX) for name in run.stdout.split()] == [True]


async def test_a_hook_that_reads_nothing_takes_a_long_payload(hooks: ShellHooks) -> None:
    assert (await hooks.run(hook("true"), "x" * 1_000_000)).exit_code == 0


async def test_a_hook_works_in_the_workspace_without_secrets(hooks: ShellHooks, tmp_path: Path) -> None:
    project = tmp_path / "project"
    run = await hooks.run(hook('pwd; echo "$VIBE_PROJECT_DIR ${MY_API_KEY-none} $PLAIN"', project_dir=project), "")
    assert run.stdout.splitlines() == [str(tmp_path), f"{project} none yes"]


async def test_a_hook_that_runs_out_of_time_is_ended_with_its_children(hooks: ShellHooks, tmp_path: Path) -> None:
    for seconds in (0.5, 5, 25):  # a busy machine may not have begun it within the first
        run = await hooks.run(hook("sh -c 'echo $$ >pid; exec sleep 600' & wait", timeout=seconds), "")
        assert run.timed_out
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
    assert await gone(await pid_in(tmp_path / "pid"))


async def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandStartError):
        await ShellHooks(tmp_path / "gone", {}).run(hook("true"), "")
