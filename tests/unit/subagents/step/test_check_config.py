"""Steps that turn off what their checks do, with real test runners."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipc.events import ToolResultEvent
from tests.fakes.models import answer, calling
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from vibe.core.messages import Outcome

FAILING_TEST = "def test_made():\n    assert open('made').read() == 'made'\n"
PYTEST = "python3 -m pytest -q -p no:cacheprovider tests"
PASSING_HOOK = """
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
"""


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """A file that makes a failing check exit with 0."""

    check: str
    name: str
    content: str


CHEATS = (
    Cheat(check=PYTEST, name="conftest.py", content=PASSING_HOOK),
    Cheat(check=PYTEST, name="pytest.py", content="raise SystemExit(0)\n"),
    Cheat(check=PYTEST, name="pytest.ini", content="[pytest]\naddopts = --collect-only\n"),
    Cheat(check=f"PYTHONPATH=. {PYTEST}", name="sitecustomize.py", content="import os\nos._exit(0)\n"),
    Cheat(check="make check", name="Makefile", content="check:\n\ttrue\n"),
)


def bench_of(home: Path, *answers: Any) -> StepBench:
    bench = StepBench(home=home, answers=answers)
    bench.write("tests/test_made.py", FAILING_TEST)
    bench.write("Makefile", f"check:\n\t{PYTEST}\n")
    return bench


def checks_run(bench: StepBench) -> list[str]:
    return [e.status for e in bench.sink.events if isinstance(e, ToolResultEvent) and e.tool == "command"]


def by_bash(name: str, content: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": f"cat > {name} <<'END'\n{content}END\n"}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
async def test_the_cheat_would_work_if_it_were_named(tmp_path: Path, cheat: Cheat) -> None:
    bench = bench_of(tmp_path, calling(by_bash(cheat.name, cheat.content)), answer("done"))

    result = await bench.run(task_of(verify=(cheat.check,), writes=(cheat.name,)))

    assert result.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
async def test_no_check_is_run_while_its_config_is_changed_and_the_step_fails(tmp_path: Path, cheat: Cheat) -> None:
    cheating = calling(by_bash(cheat.name, cheat.content))
    bench = bench_of(tmp_path, cheating, answer("done"), answer("done I say"))

    result = await bench.run(task_of(verify=(cheat.check,), max_repairs=1))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")
    assert result.detail.startswith(cheat.name)
    assert "list it in `writes`" in result.detail
    assert checks_run(bench) == []


async def test_the_agent_hears_of_it_and_puts_it_back(tmp_path: Path) -> None:
    cheating = calling(by_bash("conftest.py", PASSING_HOOK))
    mending = calling(("bash", {"command": "rm conftest.py; printf made > made"}))
    bench = bench_of(tmp_path, cheating, answer("done"), mending, answer("done without"))

    result = await bench.run(task_of(verify=(PYTEST,), max_repairs=1))

    assert (result.outcome, checks_run(bench)) == (Outcome.COMPLETED, ["ok"])
    told = bench.model.requests[2].messages[-1].content
    assert "- conftest.py was created" in told
    assert "`writes`" in told


async def test_a_repair_of_either_kind_counts(tmp_path: Path) -> None:
    cheating = calling(by_bash("conftest.py", PASSING_HOOK))
    removing = calling(("bash", {"command": "rm conftest.py"}))
    bench = bench_of(tmp_path, answer("done"), cheating, answer("done"), removing, answer("done"))

    result = await bench.run(task_of(verify=(PYTEST,)))

    assert result.detail.startswith(f"`{PYTEST}` exited with 1 after 2 repairs: ")


async def test_a_cheat_that_the_work_leaves_while_it_is_checked_is_found(tmp_path: Path) -> None:
    leaving = "open('conftest.py', 'w').write('')\nassert True\n"
    bench = bench_of(tmp_path, calling(by_bash("app.py", leaving)), answer("done"))

    result = await bench.run(task_of(verify=("python3 app.py", "true"), max_repairs=0))

    assert result.detail.startswith("conftest.py was created in this step, and it configures its checks: ")
    assert checks_run(bench) == ["ok"]


async def test_the_file_tools_refuse_it_and_the_step_goes_on(tmp_path: Path) -> None:
    write = ("write_file", {"path": "conftest.py", "content": PASSING_HOOK})
    bench = bench_of(tmp_path, calling(write), calling(by_bash("made", "x")), answer("done"))

    result = await bench.run(task_of(verify=("test -f made",)))  # a check that only reads has no configuration
    assert (result.outcome, result.denied) == (Outcome.COMPLETED, ())
    other = bench_of(tmp_path / "other", calling(write), calling(by_bash("made", "x")), answer("done"))
    refused = await other.run(task_of(verify=("sh -c 'test -f made'",)))

    assert refused.outcome is Outcome.COMPLETED
    assert "configures the checks of this step" in refused.denied[0].reason
    assert not (other.root / "conftest.py").exists()


async def test_the_next_attempt_is_told_at_once_what_the_last_one_left(tmp_path: Path) -> None:
    cheating = calling(by_bash("conftest.py", PASSING_HOOK))
    bench = bench_of(tmp_path, cheating, answer("done"))
    await bench.run(task_of(verify=(PYTEST,), max_repairs=0))
    mending = calling(("bash", {"command": "rm conftest.py; printf made > made"}))
    later = bench.again(mending, answer("done"))

    result = await later.run(task_of(verify=(PYTEST,), max_repairs=0, attempt=2))

    assert result.outcome is Outcome.COMPLETED
    assert "- conftest.py was created" in later.model.requests[0].messages[-1].content


async def test_what_a_real_runner_leaves_behind_is_held_against_nobody(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, calling(by_bash("app.py", "x = 1\n")), answer("done"))
    bench.write("made", "made")

    result = await bench.run(task_of(verify=("python3 -m pytest -q tests", "python3 -m compileall -q .")))

    assert (result.outcome, checks_run(bench)) == (Outcome.COMPLETED, ["ok", "ok"])
    assert (bench.root / ".pytest_cache").is_dir()
