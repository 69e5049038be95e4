# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Systems that lack a part of what is used, simulated: whatever exists is used, and reports are true."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from vibe.app.engine import host
from vibe.core.config.models import VibeConfig
from vibe.core.tools.builtins import bash as bash_tool
from vibe.core.tools.builtins.bash import Bash, BashConfig
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.manager import ToolManager
from vibe.shell.process import watch
from vibe.shell.sandbox import landlock, probe
from vibe.shell.sandbox.choose import choose_sandbox
from vibe.shell.sandbox.port import Sandbox
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system import files


@pytest.mark.parametrize(("refused", "wanted"), [(16_384, 10_240), (10_240, 4_096)])
def test_open_files_are_asked_for_as_far_as_the_system_gives_them(
    monkeypatch: pytest.MonkeyPatch, refused: int, wanted: int
) -> None:
    given: list[tuple[int, int]] = []

    def set_limit(_which: int, limits: tuple[int, int]) -> None:
        if limits[0] >= refused:
            raise ValueError("current limit exceeds maximum limit")
        given.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    host.allow_open_files()
    assert given == [(wanted, resource.RLIM_INFINITY)]


def test_a_system_that_gives_no_more_files_is_nothing_to_fail_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_which: int, _limits: tuple[int, int]) -> None:
        raise OSError(1, "not permitted")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    host.allow_open_files()
    monkeypatch.setattr(Path, "iterdir", lambda _: (_ for _ in ()).throw(FileNotFoundError()))
    assert host.steps_at_once(4) == 4


def test_landlock_goes_without_a_network_of_its_own_where_that_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []

    def fail(sandbox: Sandbox, argv: Sequence[str]) -> str:
        del argv
        tried.append("no network at all" not in sandbox.limits)
        return "[Errno 13] Permission denied: '/proc/self/setgroups'" if tried[-1] else ""

    monkeypatch.setattr(landlock, "failure_of", fail)
    found = landlock.find_landlock()
    assert tried == [True, False]
    assert not isinstance(found, str)
    assert "no network at all" in found.limits


def test_a_command_asks_for_no_network_of_its_own_where_it_is_of_no_use(tmp_path: Path) -> None:
    from vibe.shell.sandbox.port import SandboxPolicy  # noqa: PLC0415  used only here

    for loopback in (True, False):
        sandbox = landlock.landlock(6, loopback=loopback)
        confined = sandbox.wrap(["true"], {}, SandboxPolicy(writable=(), temp=tmp_path / "t", box=tmp_path / "b"))
        rules = json.loads(confined.argv[len(landlock.LAUNCHER)])
        assert rules["loopback"] is loopback


def test_it_is_told_why_the_sandbox_before_was_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vibe.shell.sandbox.choose.find_bubblewrap", lambda _: "bwrap: Permission denied")
    choice = choose_sandbox(SandboxMode.AUTO, {})
    assert choice.sandbox is not None
    assert choice.passed_over == "bwrap: Permission denied"


def test_a_program_that_does_nothing_is_found_without_bin_true(monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    assert subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True).returncode == 0
    assert subprocess.run(probe.TRUE, check=True).returncode == 0


def test_where_nothing_confines_the_model_hears_of_no_sandbox(tmp_path: Path) -> None:
    tools = ToolManager(ToolSources(root=tmp_path, is_sandboxed=lambda: False), VibeConfig())
    (schema,) = [one for one in tools.schemas() if one.name == "bash"]
    assert "unconfined" not in str(schema)


@pytest.mark.parametrize("stateful", [True, False])
def test_without_bash_it_is_told_which_shell_runs_the_lines(monkeypatch: pytest.MonkeyPatch, *, stateful: bool) -> None:
    monkeypatch.setattr(bash_tool, "find_shell", lambda: "/bin/sh")
    prompt = Bash.prompt_with(BashConfig(stateful=stateful)) or ""
    assert prompt.startswith("There is no bash here: /bin/sh runs the lines")
    assert "One shell" not in prompt
    assert "starts afresh" in prompt


def test_where_no_processes_are_listed_a_group_is_left_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LISTS_PROCESSES", False)
    leader = subprocess.Popen(["sh", "-c", "sleep 71 & exit 0"], start_new_session=True)
    leader.wait()
    command = watch.Command(leader.pid, -1, -1, is_confined=False)
    command.code = 0
    left = watch.Watch._left(object.__new__(watch.Watch), command)
    assert left == [-leader.pid]
    os.killpg(leader.pid, signal.SIGKILL)


def test_a_group_that_may_not_be_signalled_on_a_mac_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_leader: int, _number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    command = watch.Command(1, -1, -1, is_confined=False)
    command.code = 0
    for platform, expected in (("darwin", []), ("linux", [-1])):
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(watch, "LISTS_PROCESSES", False)
        assert watch.Watch._left(object.__new__(watch.Watch), command) == expected


def test_a_file_reaches_the_disk_where_that_takes_more_than_a_sync(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(files, "FULL_SYNC", 51)
    monkeypatch.setattr(files.fcntl, "fcntl", lambda _, request: asked.append(request))
    monkeypatch.delattr(os, "fdatasync")
    with (tmp_path / "a").open("wb") as file:
        files.sync_data(file.fileno())
    files.sync_folder(tmp_path)
    assert asked == [51, 51]
