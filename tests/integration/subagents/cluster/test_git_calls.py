from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fakes.cluster import RemoteRun, cluster
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, worktree_task, writes
from vibe.core.messages import NeverStop, Outcome

MOST = 8
"""Calls of git, on both sides, that a command step on a worker may make beyond those of a step in a local worktree."""


async def test_a_command_on_a_worker_takes_no_more_calls_of_git_beside_those_of_one_here_than_this(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, programs = tmp_path / "calls", tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\necho "$PWD: $*" >> {calls}\nexec {shutil.which("git")} "$@"\n')
    (programs / "git").chmod(0o755)
    rig = Rig(tmp_path).create(FILES)
    taken: list[list[str]] = []
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    local = rig.executor(EditingExecutor({name: writes(name, "x\n") for name in ("a", "b")}))
    with cluster(tmp_path, 1) as made:
        async with local as here, RemoteRun(rig).executor(made.scheduler.address) as (there, _):
            for executor, name in ((here, "a"), (here, "b"), (there, "c"), (there, "d")):
                calls.write_text("")
                command = None if executor is here else f"echo {name} > {name}"
                result = await executor.run(worktree_task(name, command=command), NeverStop())
                assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")
                taken.append(calls.read_text().splitlines())

    more = len(taken[3]) - len(taken[1])
    assert more <= MOST, "\n".join((*taken[1], "", *taken[3]))
