from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec

from ipc.commands import Decide
from planner.plan.status import PlanStatus, StepStatus
from planner.store.current_plan import current_state
from planner.store.folder import RunSettings, find_plan, list_plans
from planner.store.store import PlanStore

STEPS = 40
KILLS = 10


def make_plan(home: Path, rng: random.Random, **fields: object) -> str:
    steps = [
        {
            **fields,
            "id": f"s{n}",
            "title": "a step",
            "mode": "code",
            "writes": [f"{n}.txt"],
            "depends_on": [f"s{before}" for before in sorted(rng.sample(range(n), min(n, rng.randint(0, 2))))],
        }
        for n in range(STEPS)
    ]
    source = msgspec.json.encode({"version": 1, "goal": "survive", "steps": steps})
    with PlanStore.create(home, RunSettings(workspace="/w"), source) as store:
        return store.plan_id


def run_process(home: Path, plan_id: str, name: str, marks: int = -1, seconds: float = 0.0) -> int:
    """Run the process and return its exit code. It is killed ``seconds`` after so many marks, or not at all for -1."""
    command = [sys.executable, "-m", "tests.integration.planner.store.plan_process", str(home), plan_id, name]
    instant = [str(marks), str(seconds)]
    root = Path(__file__).parents[4]
    return subprocess.run([*command, str(home / "effects"), *instant], cwd=root, check=False).returncode


def kill_somewhere(home: Path, plan_id: str, number: int, rng: random.Random) -> None:
    """Run the plan until it is killed.

    Every third time that is about when its first step begins, else in the midst of some steps.
    """
    marks = 0 if number % 3 == 2 else rng.randint(1, 8)
    ended = run_process(home, plan_id, f"p{number}", marks, rng.uniform(0.0001, 0.005 if marks else 0.03))
    assert ended in {-signal.SIGALRM, 0, 1}, ended


def completed_steps(home: Path, plan_id: str) -> set[str]:
    _, state = current_state(find_plan(home, plan_id))
    return {step_id for step_id, step in state.steps.items() if step.status is StepStatus.COMPLETED}


def test_a_plan_killed_at_any_instant_is_resumed_and_repeats_no_completed_step(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    plan_id = make_plan(tmp_path, rng)
    completed_before: dict[str, set[str]] = {}
    for kill in range(KILLS):
        completed_before[f"p{kill}"] = completed_steps(tmp_path, plan_id)
        kill_somewhere(tmp_path, plan_id, kill, rng)
        assert list_plans(tmp_path)[0].problem is None
    completed_before["last"] = completed_steps(tmp_path, plan_id)
    assert run_process(tmp_path, plan_id, "last") == 0, seed

    begun: dict[str, list[str]] = {}
    for line in (tmp_path / "effects").read_text().splitlines():
        process, step_id, what = line.split()
        if what == "begin":
            assert step_id not in completed_before[process], f"{step_id} was repeated by {process}, seed {seed}"
            begun.setdefault(process, []).append(step_id)
    assert all(len(steps) == len(set(steps)) for steps in begun.values())
    state = find_plan(tmp_path, plan_id).state()
    results = state.results()
    assert state.status is PlanStatus.COMPLETED
    assert len(completed_steps(tmp_path, plan_id)) == STEPS
    assert len(begun) > 1, "the kills came too late to prove anything"
    for step in msgspec.json.decode(find_plan(tmp_path, plan_id).source())["steps"]:
        given = ",".join(f"{before}={results[before].summary}" for before in step["depends_on"])
        assert (find_plan(tmp_path, plan_id).step_folder(step["id"]) / "result.json").stat().st_size > 0
        assert results[step["id"]].summary == f"{step['id']}({given})", "a result got lost on the way"


def allow_again(home: Path, plan_id: str, allowed: Counter[str]) -> None:
    """Answer yes for every step that was cut off."""
    _, state = current_state(find_plan(home, plan_id))
    with PlanStore.open(home, plan_id) as store:
        for decision in list(state.open.values()):
            store.take(Decide(decision_id=decision.decision_id, selections=("again",)))
            allowed[str(decision.step_id)] += 1


def test_what_reaches_outside_is_begun_again_no_more_often_than_somebody_said(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    plan_id = make_plan(tmp_path, rng, side_effects=True)
    allowed: Counter[str] = Counter()
    for kill in range(KILLS):
        kill_somewhere(tmp_path, plan_id, kill, rng)
        if kill % 2:
            allow_again(tmp_path, plan_id, allowed)
    while run_process(tmp_path, plan_id, "last") != 0:
        allow_again(tmp_path, plan_id, allowed)

    begun = Counter(line.split()[1] for line in (tmp_path / "effects").read_text().splitlines() if "begin" in line)
    assert allowed, "the kills came too late to prove anything"
    assert {step_id: times for step_id, times in begun.items() if times > 1 + allowed[step_id]} == {}, seed
    assert len(completed_steps(tmp_path, plan_id)) == STEPS
