from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipc.events import ToolResultEvent
from subagents.step.tamper_guard import RunClaims, TamperGuard, checked_files, record_name
from tests.fakes.models import answer, calling
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from tests.fakes.unprivileged import folder_of_nobody
from vibe.core.messages import Outcome
from vibe.core.modes import ExecutionMode

FILES = (
    "README.md",
    "app.py",
    "src/core.py",
    "src/tests/test_core.py",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/test_a.py",
    "tests/data/a.json",
    "scripts/check.sh",
    "spec/b_spec.rb",
    "node_modules/left/test.js",
)
TESTS = ("tests/__init__.py", "tests/conftest.py", "tests/test_a.py", "tests/data/a.json")


@dataclass(frozen=True, kw_only=True)
class Case:
    line: str
    files: tuple[str, ...]
    writes: tuple[str, ...] | None = None
    mode: ExecutionMode = ExecutionMode.CODE


CASES = (
    Case(line="pytest tests/test_a.py", files=("tests/test_a.py",)),
    Case(line="pytest ./tests/test_a.py::test_one -q", files=("tests/test_a.py",)),
    Case(line="pytest tests/", files=TESTS),
    Case(line="cd tests && pytest test_a.py", files=("tests/test_a.py",)),
    Case(line="python3 -m unittest tests.test_a.Case.test_one", files=("tests/test_a.py",)),
    Case(line="bash -c 'pytest tests/test_a.py && true'", files=("tests/test_a.py",)),
    Case(line="CI=1 ./scripts/check.sh --fast", files=("scripts/check.sh",)),
    Case(line="bash -eu scripts/check.sh", files=("scripts/check.sh",)),
    Case(line="rspec spec/*_spec.rb", files=("spec/b_spec.rb",)),
    Case(line="true; python app.py | diff - tests/data/a.json", files=("app.py", "tests/data/a.json")),
    Case(line="pytest --rootdir=tests", files=TESTS),
    # Files that are read or linted are what the step works on.
    Case(line="grep -q done README.md", files=()),
    Case(line="ruff check src app.py", files=()),
    Case(line="ruff check .", files=()),
    Case(line="test -f made", files=()),
    Case(line="pytest", files=()),
    Case(line="cat 'not closed", files=()),
    # What a line writes is not what it checks with.
    Case(
        line="grep -q x app.py > tests/test_a.py 2>> README.md",
        files=(),
    ),
    Case(
        line="cat app.py | tee -a README.md tests/test_a.py && diff README.md app.py",
        files=("app.py",),
        writes=("src/**",),
    ),
    Case(line="make &> README.md; grep -q x app.py >| tests/test_a.py", files=("app.py",), writes=("src/**",)),
    # Steps in mode test are there to write tests.
    Case(line="pytest tests/", files=(), mode=ExecutionMode.TEST),
    Case(line="pytest tests/test_a.py", files=("tests/test_a.py",), mode=ExecutionMode.TEST),
    # With `writes`, everything named counts except what it covers.
    Case(line="pytest tests/", files=TESTS[:2] + TESTS[3:], writes=("tests/test_*.py",)),
    Case(line="pytest tests/test_a.py", files=(), writes=("tests/test_a.py",)),
    Case(line="pytest tests/test_a.py", files=("tests/test_a.py",), writes=("src/**",), mode=ExecutionMode.TEST),
    Case(line="grep -q done README.md", files=("README.md",), writes=("app.py",)),
    Case(line="ruff check src", files=("src/tests/test_core.py",), writes=("src/core.py",)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.line} {case.mode} {case.writes}")
def test_the_checks_consist_of_the_files_they_name(tmp_path: Path, case: Case) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    task = task_of(verify=(case.line,), writes=case.writes, mode=case.mode)

    found = [path.relative_to(tmp_path).as_posix() for path in checked_files(task, tmp_path)]

    assert sorted(found) == sorted(case.files)


def verification(root: Path, *lines: str, others: tuple[str, ...] = (), **fields: Any) -> TamperGuard:
    task = task_of(verify=lines, **fields)
    return TamperGuard(task, root, root.parent / record_name(task), lambda: others)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_a.py").write_text("assert False\n")
    return folder


def test_what_is_changed_or_gone_is_told(root: Path) -> None:
    (root / "tests" / "test_b.py").write_text("assert True\n")
    checks = verification(root, "pytest tests")
    assert checks.changed() == ()

    (root / "tests" / "test_a.py").write_text("assert True\n")
    (root / "tests" / "test_b.py").unlink()

    assert checks.changed() == ("tests/test_a.py", "tests/test_b.py")


def test_checks_may_name_what_is_closed_to_this_user() -> None:
    with folder_of_nobody() as base:
        root = base / "work"
        (root / "shut/tests").mkdir(parents=True)
        (root / "a.py").touch()
        (root / "shut").chmod(0)

        checks = verification(root, "shut/tests/run.sh a.py", "cd shut/tests && make", "pytest shut/tests")

        assert (checks.changed(), checks.config_changes()) == ((), ())


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_any_more_is_told_and_not_waited_for(root: Path, kind: str) -> None:
    checks = verification(root, "pytest tests")
    path = root / "tests" / "test_a.py"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(os.devnull)

    assert checks.changed() == ("tests/test_a.py",)


def test_what_is_new_is_the_steps_own(root: Path) -> None:
    checks = verification(root, "pytest tests tests/test_new.py")

    (root / "tests" / "test_new.py").write_text("")

    assert checks.changed() == ()
    assert verification(root, "pytest tests tests/test_new.py").protected == checks.protected


def test_how_files_were_at_first_is_known_in_another_process(root: Path) -> None:
    verification(root, "pytest tests")
    (root / "tests" / "test_a.py").write_text("assert True\n")

    assert verification(root, "pytest tests").changed() == ("tests/test_a.py",)


def test_each_attempt_in_a_worktree_begins_with_its_own_files(root: Path) -> None:
    verification(root, "pytest tests", workdir=str(root))
    (root / "tests" / "test_a.py").write_text("assert True\n")  # by a step that was merged meanwhile

    assert verification(root, "pytest tests", workdir=str(root), attempt=2).changed() == ()
    assert verification(root, "pytest tests", workdir=str(root)).changed() == ("tests/test_a.py",)


def test_what_a_neighbour_claimed_is_its_to_change(root: Path) -> None:
    checks = verification(root, "pytest tests", others=("tests/test_a.py",))
    (root / "tests" / "test_a.py").write_text("assert 1\n")
    assert checks.changed() == ()

    later = verification(root, "pytest tests")

    assert later.changed() == ()
    (root / "tests" / "test_a.py").write_text("assert 2\n")
    assert later.changed() == ("tests/test_a.py",)


def test_neighbours_are_those_that_ran_beside_a_step() -> None:
    claims = RunClaims()

    def at_work(step_id: str, *writes: str, workdir: str | None = None) -> Any:
        return claims.beside(task_of(step_id, writes=writes, workdir=workdir))

    with at_work("before", "b"):
        pass
    with at_work("beside", "x"), at_work("own", "o") as others:
        with at_work("later", "l"), at_work("elsewhere", "e", workdir="tree"):
            pass
        assert sorted(others()) == ["e", "l", "x"]
    with at_work("between", "y"):
        pass
    with at_work("own", "o") as others:  # its next attempt
        assert sorted(others()) == ["e", "l", "x", "y"]


def test_what_is_done_in_a_worktree_comes_to_others_with_its_merge_and_never_the_other_way() -> None:
    claims = RunClaims()
    unknown = claims.beside(task_of("tree", writes=None, workdir="tree"))
    claimed = claims.beside(task_of("other", writes=("a",), workdir="other"))

    with claims.beside(task_of("shared", writes=("s",))) as beside_shared, unknown as beside_tree, claimed:
        assert sorted(beside_shared()) == ["**", "a"]
        assert beside_tree() == []


WEAKEN = {"path": "tests/test_a.sh", "content": "exit 0\n"}
CHECK = "sh tests/test_a.sh"


def bench_with_failing_check(home: Path, *answers: Any) -> StepBench:
    bench = StepBench(home=home, answers=answers)
    bench.write("tests/test_a.sh", "test -f made\n")
    return bench


async def test_the_file_tools_refuse_the_checks(tmp_path: Path) -> None:
    bench = bench_with_failing_check(tmp_path, calling(("write_file", WEAKEN)), answer("done"))

    result = await bench.run(task_of(verify=(CHECK,), max_repairs=0))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")
    assert "belongs to the checks of this step" in result.denied[0].reason
    assert (bench.root / "tests/test_a.sh").read_text() == "test -f made\n"


async def test_a_check_changed_by_other_means_is_never_passed(tmp_path: Path) -> None:
    change = ("bash", {"command": "echo 'exit 0' > tests/test_a.sh"})
    bench = bench_with_failing_check(tmp_path, calling(change), answer("done"))

    result = await bench.run(task_of(verify=(CHECK,)))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")
    assert "tests/test_a.sh" in result.detail
    assert "`writes`" in result.detail
    assert "command" not in {
        event.tool for event in bench.events(ToolResultEvent) if isinstance(event, ToolResultEvent)
    }


async def test_a_check_that_changes_itself_is_not_passed(tmp_path: Path) -> None:
    bench = bench_with_failing_check(tmp_path, answer("done"))
    bench.write("tests/test_a.sh", "echo 'exit 1' > tests/test_a.sh; exit 0\n")

    result = await bench.run(task_of(verify=(CHECK,)))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")


async def test_the_next_attempt_costs_no_token_while_the_check_is_changed(tmp_path: Path) -> None:
    change = ("bash", {"command": "echo 'exit 0' > tests/test_a.sh"})
    bench = bench_with_failing_check(tmp_path, calling(change), answer("done"))
    await bench.run(task_of(verify=(CHECK,)))
    later = bench.again()

    result = await later.run(task_of(verify=(CHECK,), attempt=2))

    assert (result.outcome, result.reason, later.model.requests) == (Outcome.FAILED, "verify", [])
    assert later.sink.events == []


async def test_who_is_to_write_the_check_may(tmp_path: Path) -> None:
    weaken = calling(("write_file", {**WEAKEN, "overwrite": True}))
    bench = bench_with_failing_check(tmp_path, calling(("read_file", {"path": WEAKEN["path"]})), weaken, answer("done"))

    result = await bench.run(task_of(verify=(CHECK,), writes=(WEAKEN["path"],)))

    assert (result.outcome, result.files_changed) == (Outcome.COMPLETED, (WEAKEN["path"],))


async def test_done_without_a_passing_check_is_failed(tmp_path: Path) -> None:
    bench = StepBench(home=tmp_path, answers=[answer("done"), answer("really"), answer("I swear")])

    result = await bench.run(task_of(verify=("exit 3",)))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "verify")
    assert result.detail == "`exit 3` exited with 3 after 2 repairs"
