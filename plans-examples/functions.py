"""Clean up measurements: a plan whose steps are this program's own functions, and whose decision it makes itself.

    python plans-examples/functions.py measurements.csv

Functions and a command need no model. An agent could do any of the steps: leave its function out.
"""

from __future__ import annotations

import csv
import statistics
import sys
from pathlib import Path

from ipc.events import PlanDecisionEvent
from vibe.sdk import Decision, Option, Plan, Step, StepTask, run_plan

PLAN = Plan(
    version=1,
    goal="Clean up the measurements.",
    steps=[
        Step(id="read", title="Read them", mode="run"),
        Step(id="outliers", title="Find those that can't be right", mode="run", depends_on=["read"]),
        Step(
            id="write",
            title="Write those that are kept",
            mode="code",
            depends_on=["read", "outliers"],
            decision="drop",
            writes=["clean.csv"],
            verify=["test -s clean.csv"],
        ),
        Step(id="count", title="Count what is kept", mode="run", depends_on=["write"], command="wc -l < clean.csv"),
    ],
    decisions=[
        Decision(
            id="drop",
            question="Leave the outliers out?",
            options=[Option(id="all", label="All of them"), Option(id="none", label="None")],
        )
    ],
)


def read(task: StepTask) -> list[float]:
    """The numbers of the first column."""
    with Path(task.workdir or ".", Path(sys.argv[1]).name).open(encoding="utf-8") as lines:
        return [float(row[0]) for row in csv.reader(lines)]


def outliers(task: StepTask) -> list[float]:
    """Those more than three times the usual distance from the middle."""
    [numbers] = [each.output for each in task.inputs]
    middle = statistics.median(numbers)
    usual = statistics.median(abs(number - middle) for number in numbers)
    return [number for number in numbers if abs(number - middle) > 3 * usual]


def write(task: StepTask) -> str:
    """Keep the rest."""
    values: dict[str, list[float]] = {each.step_id: each.output for each in task.inputs}
    kept = [number for number in values["read"] if number not in values["outliers"]]
    Path(task.workdir or ".", "clean.csv").write_text("".join(f"{number}\n" for number in kept), encoding="utf-8")
    return f"{len(kept)} of {len(values['read'])} kept"


def decide(event: PlanDecisionEvent) -> str:
    """What a person would be asked: here the program knows."""
    return "all" if event.decision_id == "drop" else ""


def main() -> None:
    """Run it beside the file, and say what came of it."""
    workdir = Path(sys.argv[1]).resolve().parent
    functions = {"read": read, "outliers": outliers, "write": write}
    done = run_plan(PLAN, workdir=workdir, functions=functions, decide=decide).wait()
    print(done.steps["write"].summary)


if __name__ == "__main__":
    main()
