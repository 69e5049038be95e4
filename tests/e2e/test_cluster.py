"""Steps on a cluster: its flags and settings, and reasons why a run does not begin.

Covers ``vibe.app.cluster``, ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step, interrupt, leftovers
from tests.fakes.waiting import until
from vibe import __version__
from vibe.app.cluster import address
from vibe.app.cluster.certificates import write_certificates

PLAN = {"version": 1, "goal": "g", "steps": [{"id": "do", "title": "Do", "mode": "run", "command": "echo done > log"}]}
NO_CLUSTER = (
    "--executor dask needs a cluster: name it with --cluster ADDRESS (local:2 to try it out), or by `address` in"
)


@pytest.mark.parametrize(
    ("settings", "words", "code", "says"),
    [
        ("", ("--executor", "dask"), 2, NO_CLUSTER),
        ("", ("--executor", "local", "--cluster", "local:2"), 2, "--cluster is for --executor dask, not for 'local'"),
        ("", ("--cluster", "tcp://build:8786"), 2, "tcp:// is for this machine alone"),
        ("", ("--cluster", "tls://build:8786"), 2, "a cluster of several machines needs certificates"),
        ('[cluster]\naddress = "tls://b:1"\ncertificates = "c"', ("--executor", "dask"), 2, "c/ca.pem is not there"),
        ('[cluster]\nlargest_tree = "2"', (), 2, "largest_tree: Value error, must be a size such as 500 MB"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_said_before_anything_is_written(
    settings: str, words: tuple[str, ...], code: int, says: str, vibe: VibeCommand
) -> None:
    vibe.configure(settings)
    (vibe.workdir / "p.json").write_text(json.dumps(PLAN))

    ended = vibe("plan", "run", "p.json", *words)

    assert (ended.code, ended.out) == (code, "")
    assert says in ended.err
    assert not (vibe.home / "plans").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("worker", "local:2"), "local:2 has workers of its own: each run starts them"),
        (("status", "local:2"), "local:2 has workers of its own: each run starts them"),
        (("status",), "no cluster given: name its ADDRESS"),
        (("scheduler", "local:2"), "local:2 needs no scheduler: each run starts its own workers"),
        (("certs", ""), "argument DIR: is blank"),
    ],
)
def test_what_is_no_cluster_that_lasts_is_refused(words: tuple[str, ...], says: str, vibe: VibeCommand) -> None:
    ended = vibe("cluster", *words)

    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert not list(vibe.workdir.iterdir())


def test_a_scheduler_that_is_not_there_is_said_and_a_resume_may_name_another(vibe: VibeCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    (vibe.workdir / "p.json").write_text(json.dumps(PLAN))

    ended = vibe("plan", "run", "p.json", "--cluster", address)

    assert (ended.code, (vibe.home / "plans").exists()) == (3, False)
    assert f"the cluster {address} can't be used: Connection refused: start its scheduler" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "run", "p.json", "--cluster", "local:2"),
        ("cluster", "certs", "c"),
        ("cluster", "scheduler"),
        ("cluster", "worker", "tcp://127.0.0.1:1"),
        ("cluster", "status", "tcp://127.0.0.1:1"),
        ("doctor", "--cluster"),
    ],
)
def test_without_the_extra_it_is_named_and_nothing_is_begun(
    words: tuple[str, ...], vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_: str) -> None:
        pass

    monkeypatch.setattr(address, "find_spec", nothing)
    (vibe.workdir / "p.json").write_text(json.dumps(PLAN))

    ended = vibe(*words)

    assert (ended.code, "install vibe-orchestrator[cluster]" in ended.err) == (2, True)
    assert ([file.name for file in vibe.workdir.iterdir()], vibe.plan_ids()) == (["p.json"], [])


@pytest.fixture
def there(tmp_path: Path) -> Iterator[VibeCommand]:
    """Yield the command as on another machine, with its own home, folder, variables, and certificates in ``certs``."""
    workdir = tmp_path / "there"
    workdir.mkdir()
    variables = {"HOME": str(workdir), "TMPDIR": str(workdir), "OF_WORKER": "its own", "XDG_CACHE_HOME": str(workdir)}
    command = VibeCommand(home=workdir / "home", workdir=workdir, environ=variables)
    assert command("cluster", "certs", "certs").code == 0
    yield command
    for process in reversed(command.running):
        process.terminate()
        process.communicate()


@pytest.fixture
def cluster(there: VibeCommand, vibe: VibeCommand) -> str:
    """Start a scheduler and a worker there, configure this machine to use them, and return the scheduler's address."""
    certificates = ("--certificates", "certs")
    address = said(there.start("cluster", "scheduler", "tls://127.0.0.1:0", *certificates)).split()[2].rstrip(";")
    told = ("--slots", "2", "--label", "team=red", "--resource", "gpu=1")
    said(there.start("cluster", "worker", address, *certificates, *told))
    folder = str(there.workdir / "certs")
    vibe.configure(f'[cluster]\naddress = "{address}"\ncertificates = "{folder}"\n')
    return address


def said(process: subprocess.Popen[bytes]) -> str:
    """Return the first line that a service prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode()


def in_worktrees(vibe: VibeCommand, *steps: dict[str, Any]) -> None:
    """Create a repository with a plan whose steps work in worktrees."""
    plan = {"version": 1, "goal": "g", "defaults": {"workspace": "worktree"}, "steps": steps}
    (vibe.workdir / "p.json").write_text(json.dumps(plan))
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=n", "-c", "user.email=e@e", "commit", "-qm", "one")):
        subprocess.run(["git", *words], cwd=vibe.workdir, check=True)


def test_a_step_is_done_on_a_worker_without_anything_of_the_runs_environment(
    cluster: str, vibe: VibeCommand, there: VibeCommand, tmp_path: Path
) -> None:
    vibe.environ["OF_RUN"] = "a secret"
    own = command_step("s", "echo $OF_RUN.$OF_WORKER; echo done > log")
    needs: dict[str, Any] = {"gpu": 1, "team": "red"}
    in_worktrees(vibe, own, *(command_step(each, "sleep 0.5", needs=needs) for each in ("a", "b")))

    ended = vibe.process("plan", "run", "p.json", "--executor", "dask", "--auto-approve", "--output", "streaming")

    assert (ended.code, (vibe.workdir / "log").read_text()) == (0, "done\n")
    assert "\n.its own\n" in vibe("plan", "logs", "latest", "s").out
    places = [line for line in ended.lines if line["type"] == "step.place"]
    assert sorted((place["subagent_step_id"], place["status"]) for place in places) == [
        ("a", "placed"),
        ("b", "placed"),
        ("s", "placed"),
    ]
    waits = {
        line["step_id"] for line in ended.lines if line["type"] == "plan.waiting" and line["waits_for"] == "worker"
    }
    assert len(waits & {"a", "b"}) == 1  # there is only one gpu
    steps = vibe("plan", "report", "latest", "--format", "json").document["steps"]
    assert {attempt["worker"] for step in steps for attempt in step["attempts"]} == {places[0]["worker"]}
    assert places[0]["worker"].startswith(f"{socket.gethostname()}:")

    rows = vibe.process("cluster", "status", "--json").document["workers"]
    row = rows[0]
    assert (len(rows), row["slots"], row["labels"]["team"], row["resources"]) == (1, 2, "red", {"gpu": 1.0})
    assert (row["vibe"], bool(row["git"]), row["steps"], row["free"] > 0) == (__version__, True, [], True)
    told = [
        line
        for line in vibe.process("doctor", "--cluster").out.splitlines()
        if line[5:].startswith(("cluster", "worker"))
    ]
    assert [line[:12] for line in told] == ["ok   cluster", "ok   worker "]

    other = write_certificates(tmp_path / "other").ca.parent
    refused = vibe("cluster", "status", cluster, "--certificates", str(other))
    assert (refused.code, "of another authority than our ca.pem" in refused.err) == (3, True)
    worker = there.running[-1]
    worker.terminate()
    assert worker.wait(30) == 0
    until(lambda: not leftovers(there.workdir / "vibe"))
    assert "no workers" in vibe.process("cluster", "status").out


def test_a_worker_waits_for_its_scheduler_and_for_one_that_comes_back(there: VibeCommand, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tls://127.0.0.1:{server.getsockname()[1]}"
    own = ("--certificates", "certs")
    worker = there.start("cluster", "worker", address, *own)
    assert worker.stderr is not None
    missing = (
        f"{address} can't be used: Connection refused: start its scheduler, or correct the address; waiting for it"
    )

    for _ in range(2):
        assert missing in worker.stderr.readline().decode()
        scheduler = there.start("cluster", "scheduler", address, *own)
        assert said(worker).startswith("worker tls://")
        scheduler.terminate()
        assert scheduler.wait(30) == 0
    assert missing in worker.stderr.readline().decode()

    other = write_certificates(tmp_path / "other").ca.parent
    there.start("cluster", "scheduler", address, "--certificates", str(other))
    assert "of another authority than our ca.pem" in worker.stderr.read().decode()
    assert worker.wait(30) == 3


def test_workers_that_can_not_do_a_step_are_named_and_the_plan_pauses(
    vibe: VibeCommand, there: VibeCommand, tmp_path: Path
) -> None:
    address = said(there.start("cluster", "scheduler", "tcp://127.0.0.1:0")).split()[2].rstrip(";")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text('import vibe\nvibe.__version__ = "9.9"\n')
    there.environ["PYTHONPATH"] = str(tmp_path / "site")
    said(other := there.start("cluster", "worker", address))
    in_worktrees(vibe, command_step("s", "echo done > log"))

    ended = vibe.process("plan", "run", "p.json", "--cluster", address, "--auto-approve", "--output", "json")

    assert (ended.code, "vibe 9.9 (protocol" in json.loads(ended.out)["result"]) == (3, True)
    other.terminate()
    other.wait(30)
    there.environ |= {"PATH": str(tmp_path / "site"), "PYTHONPATH": ""}
    said(there.start("cluster", "worker", address))
    resumed = vibe.process("plan", "resume", "latest", "--auto-approve", "--output", "json")
    assert (resumed.code, "it has no git: install it there" in json.loads(resumed.out)["result"]) == (3, True)


def test_a_step_without_a_worker_waits_says_so_and_is_paused_by_ctrl_c(vibe: VibeCommand, there: VibeCommand) -> None:
    address = said(there.start("cluster", "scheduler", "tcp://127.0.0.1:0")).split()[2].rstrip(";")
    in_worktrees(vibe, command_step("s", "echo done > log"))
    run = vibe.start("plan", "run", "p.json", "--cluster", address, "--auto-approve", "--output", "streaming")
    assert run.stdout is not None
    assert any(b'"waits_for":"worker"' in line for line in run.stdout)

    interrupt(run)

    lines = [json.loads(line) for line in run.stdout]
    assert (run.wait(30), lines[-1]["steps"][0]["status"], vibe("plan", "status", "latest").code) == (130, "pending", 0)


def test_a_cluster_of_this_machine_is_started_with_the_run_and_gone_with_it(vibe: VibeCommand) -> None:
    vibe.environ["OF_RUN"] = "known"
    agent = {"id": "t", "title": "T", "mode": "code", "prompt": "Go."}
    in_worktrees(vibe, command_step("s", "echo $OF_RUN; echo done > log"), agent)
    write = {"name": "write_file", "arguments": {"path": "two", "content": "two\n"}}
    vibe.replay({"agents": {"t": {"turns": [{"tool_calls": [write]}, {"text": "written"}]}}})
    server = '[[mcp_servers]]\nname = "m"\ntransport = "stdio"\ncommand = "m"\nenabled = false\nenv = {T = "x"}\n'
    vibe.configure(f"{(vibe.home / 'config.toml').read_text()}{server}")

    ended = vibe.process("plan", "run", "p.json", "--cluster", "local:1x2", "--auto-approve", "--output", "json")

    record = json.loads(ended.out)
    assert (ended.code, [step["status"] for step in record["steps"]]) == (0, ["completed", "completed"])
    assert ((vibe.workdir / "two").read_text(), record["steps"][1]["summary"]) == ("two\n", "written")
    warned = [text for text in record["warnings"] if "may be a secret" in text]
    assert [text.partition(";")[0].rpartition(" ")[2] for text in warned] == ["mcp_servers[m].env.T"]
    assert "\nknown\n" in vibe("plan", "logs", "latest", "s").out
    folder = vibe.home / "plans" / vibe.plan_ids()[0]
    settings = json.loads((folder / "run.json").read_text())
    assert (settings["executor"], settings["cluster"], (folder / "cluster").exists()) == ("dask", "local:1x2", False)
    assert leftovers(folder) == []
    assert not (vibe.home / "logs" / "vibe.log").exists()  # its workers heard of its end before theirs


def test_what_a_killed_run_left_at_work_on_this_machine_is_gone_once_it_is_resumed(
    vibe: VibeCommand, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    hides = f"setsid sh -c 'touch {begun}; exec sleep 300'"
    in_worktrees(vibe, command_step("s", f"test -e {begun} || {{ {hides} & sleep 300; }}"))
    run = vibe.start("plan", "run", "p.json", "--cluster", "local:1", "--auto-approve", "--output", "json")
    until(begun.exists)
    folder = vibe.home / "plans" / vibe.plan_ids()[0]

    run.kill()
    run.communicate()
    until(lambda: all("sleep" in left for left in leftovers(folder)))
    assert leftovers(folder), "it hid from its session"
    ended = vibe.process("plan", "resume", "latest", "--auto-approve", "--output", "json")

    assert (ended.code, leftovers(folder)) == (0, [])


def test_a_worker_of_this_machine_that_is_killed_has_a_successor(vibe: VibeCommand, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    in_worktrees(vibe, command_step("s", f"test -e {begun} || {{ setsid sleep 300 & touch {begun}; sleep 300; }}"))
    run = vibe.start("plan", "run", "p.json", "--cluster", "local:1", "--auto-approve", "--output", "json")
    until(begun.exists)
    folder = vibe.home / "plans" / vibe.plan_ids()[0]
    found = subprocess.run(
        ["pgrep", "-f", f"subagents.cluster.node worker .*{folder}"], capture_output=True, check=True
    )
    parents = {pid: Path(f"/proc/{pid}/stat").read_text().split()[3] for pid in found.stdout.decode().split()}
    [node] = [pid for pid, parent in parents.items() if parent not in parents]
    forked = [pid for pid, parent in parents.items() if parent == node]
    [worker] = [pid for pid in forked if len([*Path(f"/proc/{pid}/task").iterdir()]) > 1]  # the fork server has one

    os.kill(int(worker), signal.SIGKILL)

    record = json.loads(run.communicate(timeout=90)[0])
    assert (run.returncode, record["steps"][0]["status"], leftovers(folder)) == (0, "completed", [])


def test_workers_of_this_machine_that_can_not_be_started_pause_the_plan(vibe: VibeCommand, tmp_path: Path) -> None:
    broken = 'import os, sys\nif "worker" in sys.orig_argv:\n    print("broken here", flush=True)\n    os._exit(7)\n'
    (tmp_path / "sitecustomize.py").write_text(broken)
    vibe.environ["PYTHONPATH"] = str(tmp_path)
    in_worktrees(vibe, command_step("s", "true"))

    ended = vibe.process("plan", "run", "p.json", "--cluster", "local:2", "--auto-approve", "--output", "json")

    told = "a worker of the cluster ended 3 times before it served, with exit code 7: broken here: mend that"
    assert (ended.code, told in json.loads(ended.out)["result"]) == (3, True), ended


def test_a_plan_of_which_no_step_can_travel_says_so(vibe: VibeCommand) -> None:
    (vibe.workdir / "p.json").write_text(json.dumps(PLAN))

    ended = vibe.process("plan", "run", "p.json", "--cluster", "local:1", "--auto-approve", "--output", "json")

    assert ended.code == 0
    assert [text for text in json.loads(ended.out)["warnings"] if "no step of this plan works in a worktree" in text]


@pytest.mark.parametrize("more", [(), ("--cluster", "local:1"), ("--dry-run",)])
def test_needs_that_no_machine_of_the_run_meets_are_refused_before_the_start(
    more: tuple[str, ...], vibe: VibeCommand
) -> None:
    in_worktrees(vibe, command_step("s", "true", needs={"os": sys.platform, "team": "red", "gpu": 1}))

    ended = vibe("plan", "run", "p.json", *more)

    assert (ended.code, vibe.plan_ids()) == (2, [])
    assert f"step 's' needs gpu=1, team=red, and this machine has os={sys.platform}, " in ended.err + ended.out
