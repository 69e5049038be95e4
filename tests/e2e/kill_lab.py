"""A plan of up to sixty steps of every kind, killed at some moment, resumed to its end, and inspected closely."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ipc.events import PlanAttemptEvent
from planner.store.folder import find_plan, list_plans
from tests.integration.core.session.repository import git, repository

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
PARALLEL = 6
RUN_SECONDS = 300.0
KILL = (signal.SIGKILL,)
STOPS = (
    (signal.SIGTERM,), (signal.SIGINT,), (signal.SIGHUP,), (signal.SIGINT, signal.SIGINT),
    (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM), (signal.SIGHUP, signal.SIGHUP),
)  # fmt: skip
"""The signals, one after the other, with which a person or a service manager stops a run."""
BETWEEN_SIGNALS = 0.05
SETTLING_SECONDS = 60.0
"""Seconds for which started processes and files may still exist after the end."""
IGNORED = ".scratch/\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The variables of an experiment. There must be at least 20 ``steps``."""

    executor: str = "local"
    worktrees: bool = True
    steps: int = 60

    @property
    def words(self) -> list[str]:
        """The flags with which the plan is run."""
        flags = ["--auto-approve", "--max-parallel", str(PARALLEL), "--output", "json"]
        return [*flags, *(["--executor", self.executor] if self.executor != "local" else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The state at the end, in which two runs of one plan must agree."""

    files: tuple[tuple[str, str], ...]
    commits: tuple[str, ...]
    statuses: tuple[tuple[str, str], ...]


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of one experiment. Times are in seconds, and ``killed_at`` counts from the start of each process."""

    seed: int
    killed_at: list[float] = field(default_factory=list[float])
    resumes: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])


class Lab:
    """One plan with a home, a repository and a folder for temporary files of its own, as a context manager.

    ``before`` are words that go before every command, as of a wrapper.
    """

    def __init__(self, kind: Kind, before: Sequence[str] = ()) -> None:
        self.kind = kind
        self.before = before

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="vk-"))
        self.home, self.tmp, self.run_dir = self.root / "h", self.root / "t", self.root / "r"
        self.workdir = repository(self.root / "w", {"README": "a project\n", ".gitignore": IGNORED})
        for folder in (self.home, self.tmp, self.run_dir):
            folder.mkdir(mode=0o700)
        plan, script = build_plan(self.kind)
        self.plan = self.root / "plan.json"
        self.plan.write_text(json.dumps(plan))
        (self.root / "script.json").write_text(json.dumps(script))
        (self.home / "config.toml").write_text(
            'active_model = "replay"\n[[providers]]\nname = "replay"\nbackend = "scripted"\n'
            f'script = "{self.root / "script.json"}"\n[[models]]\nname = "replay"\nprovider = "replay"\n'
        )
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a process that runs the plan or resumes it."""
        path = f"{VIBE.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environ = {
            "PATH": path,
            "HOME": str(self.root),
            "VIBE_HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.run_dir),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            **{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        with (self.root / "out").open("wb") as out, (self.root / "err").open("wb") as err:
            return subprocess.Popen(
                [*self.before, VIBE, "plan", *words, *self.kind.words],
                cwd=self.workdir,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def go_on(self, kill_after: float | None = None, signals: Sequence[signal.Signals] = KILL) -> int | None:
        """Run the plan, or the rest of it, and return the exit code, or None if it was stopped before its end."""
        begun = [plan.plan_id for plan in list_plans(self.home)] if (self.home / "plans").is_dir() else []
        words = ["resume", begun[0]] if begun else ["run", str(self.plan), "--decide", "database=files"]
        with self.start(*words) as process:
            try:
                return process.wait(kill_after if kill_after is not None else RUN_SECONDS)
            except subprocess.TimeoutExpired:
                for number in signals:
                    process.send_signal(number)
                    time.sleep(BETWEEN_SIGNALS)
                code = process.wait(RUN_SECONDS)
                return None if code in {end for number in signals for end in (-number, 128 + number)} else code

    def said(self) -> str:
        """Return the end of the last process's standard error."""
        return (self.root / "err").read_text(errors="replace")[-600:]

    def ending(self) -> Ending:
        """Return the present state."""
        (plan,) = list_plans(self.home)
        steps = find_plan(self.home, plan.plan_id).state().steps
        subjects = git("log", "--format=%s", cwd=self.workdir).splitlines()
        return Ending(
            files=tuple(sorted(digests(self.workdir).items())),
            commits=tuple(sorted(subject.replace(plan.plan_id, "ID") for subject in subjects)),
            statuses=tuple(sorted((step_id, step.status.value) for step_id, step in steps.items())),
        )

    def repeated(self) -> list[str]:
        """Return steps whose journal does not hold exactly one completed attempt."""
        (plan,) = list_plans(self.home)
        if plan.problem:
            return [f"the journal can't be read: {plan.problem}"]
        folder = find_plan(self.home, plan.plan_id)
        completed = Counter(
            fact.step_id
            for fact in folder.journal().facts
            if isinstance(fact, PlanAttemptEvent) and json.loads(bytes(fact.result))["outcome"] == "completed"
        )
        statuses = {step_id: step.status.value for step_id, step in folder.state().steps.items()}
        wanted = {step_id: int(status == "completed") for step_id, status in statuses.items()}
        found = [f"{s}: {completed[s]} completed attempts" for s in wanted if completed[s] != wanted[s]]
        return [*found, *([] if len(statuses) == self.kind.steps else [f"{len(statuses)} steps in the journal"])]

    def left_behind(self) -> list[str]:
        """Return everything that should be gone, after waiting for it to go.

        These are processes, worktrees, branches, sockets, entries and files.
        """
        deadline = time.monotonic() + SETTLING_SECONDS
        while (found := self._left_now()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _left_now(self) -> list[str]:
        found = [f"process {line}" for line in processes_of(self.root)]
        trees = git("worktree", "list", "--porcelain", cwd=self.workdir).count("worktree ")
        branches = git("branch", "--format=%(refname:short)", cwd=self.workdir).split()
        found += [f"{trees - 1} worktrees"] if trees != 1 else []
        found += [f"branch {name}" for name in branches if name != "main"]
        found += [f"temporary {path.name}" for path in self.tmp.iterdir()]
        found += [f"socket or entry {path.relative_to(self.root)}" for path in self.run_dir.rglob("*.ipc")]
        found += [f"entry {path.name}" for path in (self.home / "run").glob("*.json")]
        found += [f"socket {path.relative_to(self.home)}" for path in (self.home / "run").rglob("*.ipc")]
        found += [f"lock {path.name}" for path in (self.workdir / ".git").rglob("*.lock")]
        found += [f"placeholder {name}" for name in (".vibe", ".agents") if (self.workdir / name).exists()]
        found += [f"draft {path.name}" for path in (self.home / "plans").glob(".*")]
        return found


def undisturbed(kind: Kind) -> tuple[Ending, float]:
    """Return how the plan ends when nothing disturbs it, and the seconds that takes.

    Raises:
        AssertionError: It does not complete, or leaves something behind.
    """
    with Lab(kind) as lab:
        begun = time.monotonic()
        code = lab.go_on()
        seconds = time.monotonic() - begun
        assert code == 0, f"exit {code}: {lab.said()}"
        problems = [*lab.repeated(), *lab.left_behind()]
        assert problems == []
        return lab.ending(), seconds


def experiment(
    kind: Kind,
    seed: int,
    wanted: Ending,
    seconds: float,
    kills: int | None = None,
    signals: Sequence[Sequence[signal.Signals]] = (KILL,),
) -> Report:
    """Kill the plan at random moments within its ``seconds``, resume it each time, and run it to its end.

    ``kills`` is the number of kills, unless the plan ends before. If None, it is one to three, mostly one. Each is one
    of the ``signals``.
    """
    rng, report = random.Random(seed), Report(seed=seed)
    begun = time.monotonic()
    with Lab(kind) as lab:
        often = rng.choice((1, 1, 1, 2, 3)) if kills is None else kills
        instants = [rng.uniform(0.0, seconds) for _ in range(often)]
        code: int | None = None
        for instant in instants:
            code = lab.go_on(instant, rng.choice(signals))
            if code is not None:
                break
            report.killed_at.append(instant)
        tries = 0
        while code is None and tries < 2:
            code, tries = lab.go_on(), tries + 1
            report.resumes += 1
        report.seconds = time.monotonic() - begun
        over = code == 2 and "has ended (completed)" in lab.said()  # killed after the plan's end
        if code != 0 and not over:
            report.problems.append(f"exit {code}: {lab.said()}")
        else:
            report.problems += _differences(lab, wanted)
        report.problems += [f"left behind: {what}" for what in lab.left_behind()]
    return report


def _differences(lab: Lab, wanted: Ending) -> list[str]:
    found = lab.repeated()
    ending = lab.ending()
    if ending.files != wanted.files:
        found.append(f"other files: {sorted(set(ending.files) ^ set(wanted.files))}")
    if ending.commits != wanted.commits:
        found.append(f"other commits: {Counter(ending.commits) - Counter(wanted.commits)} more")
    if ending.statuses != wanted.statuses:
        found.append(f"other statuses: {sorted(set(ending.statuses) ^ set(wanted.statuses))}")
    return found


def build_plan(kind: Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a plan and its model's script.

    The plan has commands, agents with checks, worktrees, decisions, and failures to repeat.
    """
    rng = random.Random(1)
    steps: list[dict[str, Any]] = []
    agents: dict[str, Any] = {}
    for number in range(kind.steps):
        step_id = f"s{number:02}"
        before = range(max(0, number - 12), number)
        needs = [f"s{other:02}" for other in sorted(rng.sample(before, min(len(before), rng.choice((0, 1, 1, 2)))))]
        fields = _KINDS[number % 10](step_id)
        if number % 10 == 9 and not (kind.worktrees and number >= 19):
            fields = _writer(step_id)
        if "command" not in fields:
            agents[step_id] = fields.pop("script")
        steps.append({"id": step_id, "title": f"Step {number}", "depends_on": needs, **fields})
    steps[15] |= {"decision": "database", "when": {"database": ["files"]}}
    steps[16] |= {"decision": "database", "when": {"database": ["server"]}}
    steps[-5] |= {"decision": "style", "when": {"style": ["plain"]}}
    decisions = [
        _decision("database", ("files", "server")),
        _decision("style", ("plain", "ornate"), default="plain", timeout_seconds=0.2),
    ]
    plan = {"version": 1, "goal": "Survive", "steps": steps, "decisions": decisions}
    return plan, {"version": 1, "agents": agents}


def _decision(decision_id: str, options: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    offered = [{"id": option, "label": option} for option in options]
    return {"id": decision_id, "question": "Which?", "options": offered, **fields}


def _command(step_id: str) -> dict[str, Any]:
    line = f"mkdir -p out; sleep 0.0{int(step_id[1:]) % 7 + 2}; (sleep 0.05) & echo {step_id} > out/{step_id}.txt; wait"
    return {"mode": "run", "command": line}


def _flaky(step_id: str) -> dict[str, Any]:
    mark = f".scratch/{step_id}"
    line = f"mkdir -p .scratch out; test -e {mark} || {{ touch {mark}; exit 1; }}; echo {step_id} > out/{step_id}.txt"
    return {"mode": "run", "command": line, "retries": 2}


def _writer(step_id: str, **fields: Any) -> dict[str, Any]:
    path = f"made/{step_id}.txt"
    call = {"name": "write_file", "arguments": {"path": path, "content": f"{step_id}\n" * 20}}
    turns = [{"tool_calls": [call], "delay_seconds": 0.03}, {"text": f"{step_id} done", "delay_seconds": 0.03}]
    return {"mode": "code", "writes": [path], "verify": [f"test -s {path}"], "script": {"turns": turns}, **fields}


def _shell(step_id: str) -> dict[str, Any]:
    path = f"made/{step_id}.txt"
    call = {"name": "bash", "arguments": {"command": f"mkdir -p made; sleep 0.05; echo {step_id} > {path}"}}
    turns = [{"tool_calls": [call]}, {"text": f"{step_id} done", "delay_seconds": 0.05, "chunk_size": 2}]
    return {"mode": "code", "writes": [path], "script": {"turns": turns}}


def _reader(step_id: str) -> dict[str, Any]:
    call = {"name": "read_file", "arguments": {"path": "README"}}
    return {"mode": "research", "script": {"turns": [{"tool_calls": [call]}, {"text": f"{step_id} read"}]}}


def _tree(step_id: str) -> dict[str, Any]:
    return _writer(step_id, workspace="worktree")


_KINDS: tuple[Callable[[str], dict[str, Any]], ...] = (
    _command, _command, _command, _writer, _writer, _writer, _shell, _reader, _flaky, _tree,
)  # fmt: skip


def digests(root: Path) -> dict[str, str]:
    """Return the mode and digest of every file outside ``.git``, by name."""
    return {
        str(path.relative_to(root)): f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


def processes_of(root: Path) -> list[str]:
    """Return the command lines of processes that work below a folder, or name it."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inside = (process / "cwd").readlink().is_relative_to(root) or str(root) in line
            if inside and (process / "stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}:
                found.append(line.strip()[:200])
        except OSError:
            continue
    return found
