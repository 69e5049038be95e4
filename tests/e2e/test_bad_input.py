"""Covers ``vibe.cli.commands``, ``vibe.app.plan``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import EXAMPLES, VibeCommand, command_step, snapshot
from tests.fakes.ports import ports_in_a_row
from tests.fakes.unprivileged import folder_of_nobody

GOOD = command_step("a", "touch ran")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command line that is refused. ``plan`` is written to plan.json, and ``config`` to the user's config.toml."""

    words: tuple[str, ...]
    says: str
    code: int = 2
    plan: Any = None
    config: str = ""
    stdin: str = ""
    environ: dict[str, str] = field(default_factory=dict[str, str])


def plan_of(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": 1, "goal": "Try", "steps": list(steps), **fields}


MODEL_STEP = {"id": "m", "title": "Think", "mode": "research"}
RUN = ("plan", "run", "plan.json")

CASES = {
    "missing file": Case(words=("plan", "run", "nowhere.json"), says="no such file"),
    "a directory": Case(words=("plan", "run", "."), says="is a directory"),
    "empty stdin": Case(words=("plan", "run", "-"), says="standard input"),
    "not JSON": Case(words=RUN, plan="{", says="plan.json:1:2: is not JSON"),
    "unknown field": Case(words=RUN, plan=plan_of({**GOOD, "comand": "x"}), says="did you mean 'command'"),
    "a place": Case(words=RUN, plan=plan_of({**GOOD, "mode": 1}), says="plan.json:1:"),
    "a place in stdin": Case(
        words=("plan", "run", "-"),
        stdin='{"goal": "g", "version": 1,\n"steps": 1}',
        says="standard input:2:1: steps: must be a list, not 1",
    ),
    "missing YAML file": Case(words=("plan", "show", "nowhere.yaml"), says="nowhere.yaml: no such file"),
    "unknown dependency": Case(
        words=RUN, plan=plan_of({**GOOD, "depends_on": ["b"]}, command_step("bb", "true")), says="'bb'"
    ),
    "cycle": Case(
        words=RUN,
        plan=plan_of(*(command_step(s, "true", depends_on=[d]) for s, d in ("ab", "bc", "ca"))),
        says="a -> ",
    ),
    "another version": Case(words=RUN, plan={**plan_of(GOOD), "version": 2}, says="2 is not a plan format"),
    "a worktree without a repository": Case(
        words=RUN, plan=plan_of({**GOOD, "workspace": "worktree"}), says="it is not a git repository"
    ),
    "unknown plan id": Case(words=("plan", "status", "20200101-000000"), says="no plan has run yet"),
    "no subcommand": Case(words=("agents",), says="a command is missing: choose from list; see `vibe agents --help`"),
    "no key": Case(words=("config", "get"), says="KEY is missing: add it; see `vibe config get --help`"),
    "unknown subcommand": Case(words=("plan", "rnu", "x"), says="did you mean 'run'"),
    "unknown flag": Case(words=("plan", "run", "--fail-fsat", "x"), says="did you mean '--fail-fast'"),
    "attaching without a terminal": Case(
        words=("--attach", "x"), says="--attach needs a terminal: use `vibe events tail x`"
    ),
    **{
        f"{what} {' '.join(words)}": Case(words=(*words, name), says=said)
        for what, name, said in (
            ("nobody's", "~nobodys/x", "~nobodys/x"),
            ("too long", "x" * 300, "xxx'... can't be a path"),
        )
        for words in (
            ("--prompt-file",),
            ("-p", "hi", "--workdir"),
            ("-p", "hi", "--output-schema"),
            ("plan", "run"),
            ("plan", "show"),
            ("plan", "new", "goal", "-o"),
            ("plan", "new", "goal", "--from"),
            ("mcp", "import"),
            ("trust", "add"),
            ("events", "tail"),
        )
    },
    "no file to compare": Case(words=("plan", "diff"), says="vibe: A and B are missing: add them; see `vibe plan diff"),
    "no step to tell": Case(words=("plan", "steer"), says="vibe: ID, STEP and TEXT are missing: add them"),
    "a flag with a value": Case(words=("doctor", "--online=x"), says="argument --online: takes no value, not 'x'"),
    "an option without one": Case(words=("usage", "--days"), says="argument --days: its value is missing: add it"),
    "a folder to write": Case(
        words=("cluster", "certs", "x" * 5000), says="x'... can't be a path, it is too long or has a NUL: check it"
    ),
    "an event no journal can hold": Case(
        words=("events", "tail", "latest", "--from", "1" + "0" * 29), says="argument --from: must be an event number"
    ),
    "no run to answer": Case(words=("events", "answer"), says="vibe: SOURCE is missing: add it"),
    "no page": Case(
        words=("plan", "status", "x", "--page", "two", "s"), says="must be an integer, 1 or more, not 'two'"
    ),
    "no message": Case(words=("session", "rewind", "x", "one"), says="must be the number of a message"),
    "setting up without a terminal": Case(words=("--setup",), says="--setup needs a terminal"),
    "another flag of Mistral Vibe": Case(words=("-v",), says="there is no -v: use `vibe --version`"),
    "unknown flag of a prompt": Case(words=("-p", "x", "--auto-aprove"), says="did you mean '--auto-approve'"),
    "unknown output": Case(words=("-p", "x", "--output", "xml"), says="unknown --output 'xml'"),
    "unknown model": Case(words=(*RUN, "--model", "devstrl-2"), plan=plan_of(MODEL_STEP), says="devstral-2"),
    "unknown model of a step": Case(
        words=RUN, plan=plan_of({**MODEL_STEP, "model": "gpt"}), says="step 'm': no model 'gpt'"
    ),
    "unknown agent": Case(words=("-p", "x", "--agent", "exlpore"), says="did you mean 'explore'"),
    "unknown agent of a step": Case(words=RUN, plan=plan_of({**MODEL_STEP, "agent": "nobody"}), says="'nobody'"),
    "no key for a plan": Case(words=RUN, plan=plan_of(MODEL_STEP), says="MISTRAL_API_KEY", code=3),
    "no key for a prompt": Case(words=("-p", "x"), says="MISTRAL_API_KEY", code=3),
    "no prompt": Case(words=("-p",), says="no prompt"),
    "a prompt without -p and no terminal UI": Case(
        words=("--max-turns", "0", "-p", "x"), says="must be an integer, 1 or more"
    ),
    "no number of a message": Case(
        words=("session", "fork", "x", "a"), says="must be the number of a message, 0 or more, not 'a'"
    ),
    "broken TOML": Case(words=("-p", "x"), config='active_model = "x\n', says="config.toml:1"),
    "duplicate key": Case(words=("-p", "x"), config='active_model = "a"\nactive_model = "b"\n', says="config.toml:2"),
    "a wrong value": Case(
        words=("-p", "x"),
        config='[tools.bash]\npermission = "sometimes"\n',
        says="config.toml:2: tools.bash.permission",
    ),
    "a wrong variable": Case(
        words=("-p", "x"), environ={"VIBE_PLANNER__MAX_PARALLEL_STEPS": "none"}, says="VIBE_PLANNER__MAX_PARALLEL_STEPS"
    ),
    "no such workdir": Case(words=("-p", "x", "--workdir", "nowhere"), says="no such folder"),
    "a decision there is not": Case(words=(*RUN, "--decide", "x=y"), plan=plan_of(GOOD), says="--decide x"),
    "a decision without option": Case(words=(*RUN, "--decide", "x"), plan=plan_of(GOOD), says="ID=OPTION"),
    "a bus beyond loopback": Case(
        words=(*RUN, "--bus", "tcp://192.0.2.1:5555"), plan=plan_of(GOOD), says="reachable from other machines", code=3
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_input_is_one_sentence_and_changes_nothing(vibe: VibeCommand, case: Case) -> None:
    if case.plan is not None:
        text = case.plan if isinstance(case.plan, str) else json.dumps(case.plan)
        (vibe.workdir / "plan.json").write_text(text)
    if case.config:
        vibe.configure(case.config)
    vibe.environ.update(case.environ)
    before = snapshot(vibe.workdir.parent)

    ended = vibe(*case.words, stdin=case.stdin)

    assert (ended.code, ended.out) == (case.code, ""), ended.err
    assert case.says in ended.err
    assert "Traceback" not in ended.err
    assert ended.err.count("\n") == 1, ended.err
    assert not (vibe.workdir / "ran").exists()
    assert snapshot(vibe.workdir.parent) == before


def test_every_problem_of_a_plan_is_reported_at_once(vibe: VibeCommand) -> None:
    document = plan_of({**GOOD, "mode": "cook"}, {**GOOD, "retries": -1}, {"id": "Bad Id", "mode": "run"})
    (vibe.workdir / "plan.json").write_text(json.dumps(document))

    ended = vibe("plan", "validate", "plan.json", "--output", "json")

    paths = {problem["path"] for problem in ended.document["problems"]}
    assert ended.code == 2
    assert {"steps[0].mode", "steps[1].retries", "steps[1].id", "steps[2].id", "steps[2].title"} <= paths


def test_an_address_in_use_names_who_uses_it(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    address = f"tcp://127.0.0.1:{ports_in_a_row()}"
    plan = write_plan(command_step("long", "touch started; while [ ! -e go ]; do sleep 0.05; done"))
    first = vibe.start("plan", "run", "--bus", address, plan)
    while not (vibe.workdir / "started").exists():
        assert first.poll() is None
        os.sched_yield()

    second = vibe("plan", "run", "--bus", address, plan)

    assert second.code == 3
    assert "in use" in second.err
    assert second.err.count("\n") == 1
    assert len(vibe.plan_ids()) == 1
    (vibe.workdir / "go").touch()
    first.communicate(timeout=120)
    assert first.returncode == 0


def test_a_home_that_cannot_be_written_is_said(
    vibe: VibeCommand, write_plan: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    vibe.home = tmp_path / "file" / "home"

    ended = vibe.process("plan", "run", write_plan(GOOD))

    assert (ended.code, ended.err.count("\n")) == (3, 1)
    assert not (vibe.workdir / "ran").exists()


def test_a_traceback_is_shown_only_when_asked_for(vibe: VibeCommand) -> None:
    assert "Traceback" not in vibe("plan", "run", "nowhere.json").err
    assert "Traceback" in vibe("--debug", "plan", "run", "nowhere.json").err


def test_the_examples_are_valid(vibe: VibeCommand) -> None:
    examples = sorted(EXAMPLES.glob("*.json"))
    assert examples
    for example in examples:
        ended = vibe("plan", "validate", str(example), "--output", "json")
        assert (ended.code, ended.document["valid"]) == (0, True), example


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan", "show", "shut/plan"), "shut/plan: can't be read: Permission denied"),
        (("plan", "diff", "shut/a", "b.json"), "shut/a: can't be read: Permission denied"),
        (("plan", "new", "-o", "shut/plan.json", "A goal"), "no file can be created in"),
        (("events", "tail", "shut/events"), "the journal shut/events can't be used"),
    ],
)
def test_a_path_in_a_folder_that_is_closed_to_this_user_is_a_sentence(
    vibe: VibeCommand, words: tuple[str, ...], says: str
) -> None:
    vibe(*words)  # loads what may not be readable once the rights are dropped
    with folder_of_nobody() as folder:
        (folder / "work/shut").mkdir(parents=True, mode=0)
        (folder / "work/shut").chmod(0)

        ended = replace(vibe, home=folder / "home", workdir=folder / "work")(*words)

        assert (ended.code, ended.err.count("\n")) == (2, 1), ended.err
        assert says in ended.err
