"""Reasons why a scheduler or a worker does not start, and the report of a frozen worker."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from distributed.comm.core import CommClosedError
from distributed.versions import get_versions

from subagents.cluster.node import NodeFormatter
from tests.fakes.cluster import cluster
from tests.fakes.step_links import until
from tests.integration.subagents.worktree.rig import environment
from vibe.app.cluster import service
from vibe.app.cluster.address import parse_address
from vibe.app.cluster.service import Node, check_free, keep_running, worker_folder
from vibe.app.inspect.cluster import cluster_findings
from vibe.app.inspect.diagnosis import CheckState
from vibe.core.config.models import ClusterConfig
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system.errors import EnvironmentFailure


def test_a_scheduler_is_not_started_where_another_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = parse_address(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(EnvironmentFailure, match="Address already in use: end what does, or name another ADDRESS"):
            check_free(address, address.host)
    check_free(address, address.host)


def test_a_scheduler_whose_port_was_taken_meanwhile_says_so_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        taken = Node(address=address, certificates=None, environ=environment(), folder=tmp_path)

        ended = subprocess.run(taken.argv(), env=environment(), capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert ended.stderr == "Scheduler failed to start. [Errno 98] Address already in use\n"


def test_a_table_of_versions_is_not_printed_to_who_runs_a_plan() -> None:
    warn = (
        "import warnings\nimport subagents.cluster\nfrom distributed.versions import VersionMismatchWarning\n"
        "warnings.warn(VersionMismatchWarning('Mismatched versions found\\n\\n+---+'))"
    )

    ended = subprocess.run([sys.executable, "-c", warn], env=environment(), capture_output=True, text=True, check=True)

    assert ended.stderr == ""


def test_a_worker_whose_folder_can_not_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"file can't be written: .*: name another with --folder"):
        worker_folder(tmp_path / "file")


def test_a_frozen_worker_is_named_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagents.cluster.client.INFO_SECONDS", 1.0)
    get_versions()  # reads files, which is forbidden on a test's event loop
    with cluster(tmp_path, 1, 1) as made:
        made.workers[0].signal(signal.SIGSTOP)
        config = ClusterConfig(address=made.scheduler.address)
        found = {finding.detail.split()[0]: finding for finding in cluster_findings(config, SandboxMode.OFF, {})}

    frozen = found[made.workers[0].address]
    assert frozen.state is CheckState.FAILED
    assert "does not answer: end it there, and start it anew" in frozen.detail
    assert "vibe " in found[made.workers[1].address].detail


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            CommClosedError("ConnectionPool closing."),
            "distributed.worker ERROR no heartbeat\nCommClosedError: ConnectionPool",
        ),
        (ValueError("a fault"), "Traceback (most recent call last):"),
    ],
)
def test_a_lost_scheduler_is_told_in_a_line_and_a_fault_with_its_traceback(error: Exception, told: str) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        fail()
    given = (caught.type, caught.value, caught.tb)
    record = logging.LogRecord("distributed.worker", logging.ERROR, "", 1, "no heartbeat", (), given)

    text = NodeFormatter("%(name)s %(levelname)s %(message)s").format(record)

    assert told in text
    assert ("Traceback" in text) == isinstance(error, ValueError)


def node(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Return a worker whose process runs ``program``."""
    (folder / "odd_node.py").write_text(program)
    monkeypatch.setattr(service, "PROGRAM", "odd_node")
    environ = {**environment(), "PYTHONPATH": str(folder)}
    return Node(address="tcp://127.0.0.1:1", certificates=None, environ=environ, folder=folder, slots=1, is_quiet=True)


async def test_a_node_that_never_serves_is_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "AGAIN_SECONDS", 0.0)
    count = f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\n"
    dying = node(tmp_path, f"import sys\n{count}print('no such library', file=sys.stderr)\nsys.exit(7)\n", monkeypatch)

    with pytest.raises(EnvironmentFailure, match="ended 3 times before it served, with exit code 7: no such library:"):
        await keep_running(dying, str)

    assert (tmp_path / "starts").read_text() == "xxx"


async def test_the_address_of_a_node_is_told_whole_however_its_bytes_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "AGAIN_SECONDS", 0.0)
    slow = (
        "import os, time\nfor part in (b'tcp://a:1', b'2\\ntcp', b'://b:3\\n'):\n os.write(1, part)\n time.sleep(0.1)\n"
    )
    told: list[str] = []

    async with anyio.create_task_group() as group:
        group.start_soon(keep_running, node(tmp_path, slow, monkeypatch), told.append)
        await until(lambda: len(told) >= 6)  # a node that has served is restarted without limit
        group.cancel_scope.cancel()

    assert told[:6] == ["tcp://a:12", "tcp://b:3"] * 3
