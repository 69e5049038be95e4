"""The workers of a cluster as they describe themselves, and what would keep steps from being done there."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
from msgspec import Struct, convert

from subagents.cluster.client import ClusterClient
from subagents.cluster.node import security_of
from subagents.remote.places import WorkerInfo
from vibe import __version__
from vibe.app.cluster.address import Certificates, ClusterError, check_cluster, parse_address, reach
from vibe.app.inspect.diagnosis import CheckState, Finding
from vibe.core.config.models import ClusterConfig
from vibe.shell.sandbox.choose import choose_sandbox
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system.errors import VibeError, os_error_as

SECONDS = 8.0
SOON = timedelta(days=30)
LITTLE_BYTES = 2_000_000_000
MB = 1_000_000
SILENT = "does not answer: end it there, and start it anew"


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker.

    ``sandbox`` lists the ones it has, ``steps`` those it does now, and ``free`` is the free bytes of its disk.
    """

    address: str
    host: str
    slots: int
    pid: int = 0
    labels: Mapping[str, str] = {}
    resources: Mapping[str, float] = {}
    vibe: str = ""
    python: str = ""
    git: str = ""
    sandbox: tuple[str, ...] = ()
    free: int = 0
    steps: tuple[str, ...] = ()


def cluster_workers(address: str, certificates: Certificates | None) -> list[WorkerRow]:
    """Return the workers of a cluster that ``check_cluster`` reached, sorted by host. Blocks, and runs an event loop.

    Raises:
        EnvironmentFailure: it does not answer.
    """
    if not parse_address(address).host:
        return []
    with os_error_as(partial(ClusterError, address)):
        found = anyio.run(_ask, address, certificates)
    return sorted(map(_row, found), key=lambda row: (row.host, row.address))


async def _ask(address: str, certificates: Certificates | None) -> list[WorkerInfo]:
    security = security_of(certificates.files if certificates else ())
    with anyio.fail_after(SECONDS):
        async with ClusterClient(address, security, run=uuid4().hex) as client:
            return [*await client.workers()]


def _row(info: WorkerInfo) -> WorkerRow:
    described = dict(info.report)
    known: dict[str, Any] = {name: described[name] for name in WorkerRow.__struct_fields__ if name in described}
    known |= {"steps": sorted(described.get("steps", {}).values()), "sandbox": described.get("capabilities", ())}
    return convert({**known, "address": info.address, "host": info.host, "slots": info.slots}, WorkerRow)


def worker_line(row: WorkerRow) -> str:
    """Return a worker as a line of text."""
    if not row.vibe:
        return f"{row.address}  {row.host}  {SILENT}"
    labels = [f"{name}={text}" for name, text in sorted(row.labels.items())]
    labels += [f"{name}={amount:g}" for name, amount in sorted(row.resources.items())]
    at_work = f"{len(row.steps)} of {row.slots} at work: {', '.join(row.steps)}"
    doing = at_work if row.steps else f"{row.slots} at once, idle"
    system = f"vibe {row.vibe}, Python {row.python}, git {'there' if row.git else 'MISSING'}"
    sandbox = f"sandbox {' and '.join(row.sandbox) or 'NONE'}, {row.free // MB} MB free"
    return f"{row.address}  {row.host} (pid {row.pid})  {doing}  {' '.join(labels)}  {system}, {sandbox}"


def cluster_findings(config: ClusterConfig, mode: SandboxMode, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the configured cluster, and that each of its workers can do the runs of this machine. Blocks."""
    if not config.address:
        yield Finding("cluster", CheckState.WARNING, "none: set `address` in [cluster] of your settings")
        return
    try:
        certificates = check_cluster(config.address, config.certificates)
        workers = cluster_workers(config.address, certificates)
    except VibeError as error:
        yield Finding("cluster", CheckState.FAILED, str(error))
        return
    until = f", certificates good until {certificates.expires:%Y-%m-%d}" if certificates else ""
    is_late = certificates is not None and certificates.expires - datetime.now(UTC) < SOON
    missing = "" if workers or not parse_address(config.address).host else ": start some with `vibe cluster worker`"
    state = CheckState.WARNING if is_late or missing else CheckState.OK
    yield Finding("cluster", state, f"{config.address}, workers: {len(workers)}{missing}{until}")
    sandbox = choose_sandbox(mode, environ).sandbox
    needed = "" if sandbox is None else sandbox.name.split()[0].lower()
    for row in workers:
        problems = [*_problems(row, needed, certificates)]
        state = max((state for state, _ in problems), default=CheckState.OK, key=[*CheckState].index)
        yield Finding("worker", state, "; ".join([worker_line(row), *(text for _, text in problems)]))


def _problems(row: WorkerRow, sandbox: str, certificates: Certificates | None) -> Iterator[tuple[CheckState, str]]:
    """Yield what is wrong with a worker for runs of this machine, and what would fix it."""
    if not row.vibe:
        yield CheckState.FAILED, "nothing is done there until then"
        return
    if row.vibe != __version__:
        yield CheckState.FAILED, f"its vibe is another than {__version__}, here: install one version on both"
    if row.python.split(".")[:2] != platform.python_version().split(".")[:2]:
        yield CheckState.WARNING, f"its Python is another than {platform.python_version()}, here: use the same"
    if not row.git:
        yield CheckState.FAILED, "it has no git: install it there"
    if sandbox and sandbox not in row.sandbox:
        yield CheckState.FAILED, f"it has no {sandbox}, which confines commands here: install it there"
    if row.free < LITTLE_BYTES:
        yield CheckState.WARNING, f"only {row.free // MB} MB of its disk are free: make room"
    try:
        reach(parse_address(row.address), certificates)
    except VibeError as error:
        consequence = "so the scheduler passes on all that its steps say: open its port to them"
        yield CheckState.WARNING, f"runs of this machine can't reach it ({error}), {consequence}"
