"""A cluster on this machine, and runs whose steps are done in worktrees on it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from distributed.security import Security
from msgspec.structs import replace

from subagents.agent.budget import Limits
from subagents.agent.run_services import RunServices
from subagents.cluster.client import ClusterClient
from subagents.cluster.places import SETTINGS_VARIABLE
from subagents.executor import StepExecutor
from subagents.process.protocol import APPROVALS, QUESTIONS
from subagents.remote.executor import ClusterExecutor, RunForWorkers
from subagents.remote.frames import RemoteSettings, RunParts
from subagents.step.tamper_guard import RunClaims
from subagents.worktree.executor import WorktreeExecutor
from tests.fakes.step_links import shared_of_a_run
from tests.integration.subagents.worktree.rig import EditingExecutor, Rig, environment
from vibe.app.engine.build import EngineRequest
from vibe.app.plan.step_context import StepDocument, StepPlace
from vibe.core.tools.permissions import ApprovalMode

NOTICED = 25.0
"""The most seconds until a lost worker must have been noticed, with a loss timeout of 4 s.

On an idle machine it takes at most 9. If the loss went unnoticed, it would take minutes.
"""

NODE = Path(__file__).with_name("dask_node.py")
ROOT = Path(__file__).parents[2]


class Node:
    """One process of a cluster: a scheduler or a worker."""

    def __init__(self, variables: Mapping[str, str], *words: str, hides: Path | None = None) -> None:
        environ = {**environment(), "PYTHONPATH": str(ROOT), **variables}
        without = f'mount -t tmpfs none {shlex.quote(str(hides))} && exec "$@"'
        alone = () if hides is None else ("unshare", "--mount", "sh", "-c", without, "sh")
        self.process = subprocess.Popen(
            [*alone, sys.executable, str(NODE), *words],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def address(self) -> str:
        """The node's address. Blocks until the node has printed it."""
        if not hasattr(self, "_address"):
            assert self.process.stdout is not None
            self._address = self.process.stdout.readline().strip()
        return self._address

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Cluster:
    """A scheduler, and workers that each have a folder of their own below ``base``."""

    def __init__(self, base: Path, **variables: str) -> None:
        self._base = base
        self.scheduler = Node(variables, "scheduler")
        self.workers: list[Node] = []

    def add(self, *, slots: int = 2, hides: Path | None = None, **settings: Any) -> Node:
        """Start one more worker, without waiting until it has joined. The folder ``hides`` looks empty to it."""
        folder = self._base / f"worker{len(self.workers)}"
        said = json.dumps({"folder": str(folder), **settings})
        variables = {SETTINGS_VARIABLE: said, "HOME": str(folder)}
        worker = Node(variables, "worker", self.scheduler.address, str(slots), hides=hides)
        self.workers.append(worker)
        return worker

    def folder(self, number: int = 0) -> Path:
        """Return the folder of a worker."""
        return self._base / f"worker{number}"

    def end(self) -> None:
        """Kill every process of the cluster."""
        for node in (*self.workers, self.scheduler):
            node.end()


@contextmanager
def cluster(base: Path, *slots: int, **variables: str) -> Generator[Cluster]:
    """Run a cluster with one worker for each number in ``slots``."""
    made = Cluster(base, **variables)
    try:
        for number in slots:
            made.add(slots=number)
        for worker in made.workers:
            assert worker.address
        yield made
    finally:
        made.end()


@dataclass
class RemoteRun:
    """A run in a repository. ``executor`` opens the executor that its plan would use."""

    rig: Rig
    services: RunServices = field(default_factory=shared_of_a_run)
    settings: RemoteSettings = field(default_factory=RemoteSettings)
    replay: Path | None = None
    lost_seconds: float = 20.0
    agents: int = 0
    limits: Limits = field(default_factory=Limits)
    attended: bool = False
    security: Security | None = None

    @property
    def home(self) -> Path:
        """Vibe's home folder in this run."""
        return self.rig.base / "home"

    def for_workers(self) -> RunForWorkers:
        """Return what the run sends to its workers."""
        self.home.mkdir(exist_ok=True)
        files = {} if self.replay is None else {"replay.json": self.replay.read_bytes()}
        document = StepDocument(
            home=self.home,
            steps=self.rig.home / "steps",
            request=EngineRequest(
                workdir=self.rig.root, replay=self.home / "replay.json" if self.replay else None, trust=True
            ),
            approvals=ApprovalMode.ASK if self.attended else ApprovalMode.ALL,
            limits=self.limits,
            place=StepPlace(workspace=self.rig.root),
        )
        parts = RunParts(document=msgspec.json.encode(document, enc_hook=str), files=files, agents=self.agents)
        if self.attended:
            parts = replace(parts, capabilities=(APPROVALS, QUESTIONS))
        return RunForWorkers(
            run_id=uuid4().hex, home=self.home, steps=self.rig.home / "steps", workspace=self.rig.root, parts=parts
        )

    @asynccontextmanager
    async def executor(self, address: str) -> AsyncGenerator[tuple[WorktreeExecutor, ClusterClient]]:
        """Open the worktree executor over a cluster, and the run's connection to that cluster."""
        sent = self.for_workers()
        local: StepExecutor = EditingExecutor({})
        async with ClusterClient(address, self.security, run=sent.run_id, lost_seconds=self.lost_seconds) as client:
            inner = ClusterExecutor(local, client, self.services, RunClaims(), sent, self.rig.repository, self.settings)
            async with WorktreeExecutor(inner, self.rig.place(), self.rig.repository, self.services.sink) as executor:
                yield executor, client
