"""The ``vibe`` command as a script would run it: no terminal, no stdin, and a home of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from tests.fakes.model_server import ModelServer
from tests.fakes.terminal import Terminal
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until
from tests.fakes.warm import WarmVibe, can_fork
from vibe.app.engine.host import vibe_home
from vibe.cli.environment import CliEnvironment
from vibe.cli.run import run_command_line
from vibe.core.llm.retry import RetryPolicy

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "plans-examples"
VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
RETRIES = RetryPolicy(initial_seconds=0.05, unreached_seconds=0.5)
SERVED = """active_model = "first"
[[providers]]
name = "served"
api_base = "{api_base}"
api_key_env_var = "SERVED_KEY"
backend = "generic"
[[models]]
name = "m1"
alias = "first"
provider = "served"
"""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines. Only a line feed ends a line, whatever else Unicode calls a line break."""
        return [json.loads(line) for line in self.out.split("\n") if line]


@dataclass
class VibeCommand:
    """Runs ``vibe`` in ``workdir`` with its own home. ``environ`` is added to the few variables that it inherits.

    A call runs the command line inside this process, which saves the start, and waits a tenth as long before it repeats
    a call to a model. ``process`` and ``start`` run the installed command, for tests in which the process itself
    matters: its signals, streams, limits and end.
    """

    home: Path
    workdir: Path
    environ: dict[str, str] = field(default_factory=dict[str, str])
    running: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    retries: RetryPolicy = RETRIES

    def __call__(self, *words: str, stdin: str = "") -> Finished:
        """Run to the end inside this process."""
        variables = MappingProxyType(self.variables())
        out, err = (TextIOWrapper(BytesIO(), "utf-8", errors="replace", newline="") for _ in range(2))
        env = CliEnvironment(
            home=vibe_home(variables, self.workdir),
            cwd=self.workdir,
            environ=variables,
            stdin=TextIOWrapper(BytesIO(stdin.encode()), "utf-8"),
            stdout=out,
            stderr=err,
            retries=self.retries,
        )
        code = run_command_line(words, env)
        sys.stdout.write(
            f"$ {shlex.join(('vibe', *words))}\n{_text(out)}{_text(err)}[{code}]\n"
        )  # shown if a test fails
        return Finished(int(code), _text(out), _text(err))

    def process(self, *words: str, stdin: str = "", timeout: float = 180) -> Finished:
        """Run the installed command to its end."""
        return self.run([str(VIBE), *words], stdin=stdin, timeout=timeout)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 180,
        before: Callable[[], None] | None = None,
    ) -> Finished:
        """Run a program where the command would run. ``before`` is called in the new process."""
        # Python keeps bytecode that a limit cut short, and every later program would fail on it.
        variables = self.variables() | ({} if before is None else {"PYTHONDONTWRITEBYTECODE": "1"})
        ended = subprocess.run(
            argv,
            cwd=self.workdir,
            env=variables,
            input=stdin.encode(),
            capture_output=True,
            timeout=timeout,
            start_new_session=True,
            preexec_fn=before,
            check=False,
        )
        return Finished(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start the installed command in a session of its own, and return at once."""
        process = subprocess.Popen(
            [str(VIBE), *words],
            cwd=self.workdir,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def on(
        self, terminal: Terminal, *words: str, stdout: int | None = None
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Start the installed command on a terminal. Leaving the context kills it if it still runs."""
        return terminal.running(VIBE, *words, cwd=self.workdir, env=self.variables(), stdout=stdout)

    def at(self, tmux: Tmux, *words: str) -> None:
        """Start the installed command in a tmux window."""
        tmux.start([VIBE, *words], cwd=self.workdir, env=self.variables())

    def plan_ids(self) -> list[str]:
        """Return the ids of the plans in this home, in the order of their start."""
        folders = (self.home / "plans").glob("[!.]*/run.json")
        return [path.parent.name for path in sorted(folders, key=lambda path: json.loads(path.read_text())["created"])]

    def configure(self, text: str) -> None:
        """Write the user's configuration file."""
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(text)

    def replay(self, script: dict[str, Any]) -> None:
        """Make a scripted model the active one."""
        self.home.mkdir(exist_ok=True)
        path = self.home / "script.json"
        path.write_text(json.dumps({"version": 1, **script}))
        self.configure(
            f'active_model = "replay"\n[[providers]]\nname = "replay"\nbackend = "scripted"\nscript = "{path}"\n'
            '[[models]]\nname = "replay"\nprovider = "replay"\n'
        )

    def variables(self) -> dict[str, str]:
        """Return all environment variables of the command."""
        inherited = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "TMPDIR", "PYTHON_KEYRING_BACKEND")
            if name in os.environ
        }
        path = f"{VIBE.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
        return {**inherited, "PATH": path, "VIBE_HOME": str(self.home), "LANG": "C.UTF-8", **self.environ}


def _text(stream: TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue().decode()


@pytest.fixture(scope="session")
def warm_vibe() -> Iterator[WarmVibe]:
    """Yield what forks the installed commands from a process that has loaded them."""
    with WarmVibe([VIBE, VIBE.with_name("vibe-acp")]) as warm:
        yield warm


@pytest.fixture(autouse=True)
def forks(request: pytest.FixtureRequest, warm_vibe: WarmVibe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the installed commands where their start is not what a module is about: it says ``EXECUTES`` if it is."""
    module = cast("object", request.module)  # pyright: ignore[reportUnknownMemberType]
    if can_fork() and not getattr(module, "EXECUTES", False):
        monkeypatch.setattr(subprocess.Popen, "_execute_child", warm_vibe.method)


@pytest.fixture
def vibe(tmp_path: Path) -> Iterator[VibeCommand]:
    """Yield the command in an empty workspace, and kill what it left running."""
    workdir = tmp_path / "work"
    workdir.mkdir()
    command = VibeCommand(home=tmp_path / "home", workdir=workdir, environ={"TMPDIR": str(tmp_path)})
    yield command
    for process in command.running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def server(vibe: VibeCommand) -> Iterator[ModelServer]:
    """Serve a model, and make it the active one."""
    with ModelServer() as running:
        vibe.configure(SERVED.format(api_base=running.api_base))
        vibe.environ["SERVED_KEY"] = "k"
        yield running


@pytest.fixture
def tmux(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tmux]:
    """Open a tmux window. A module may set its columns and rows as ``WINDOW``."""
    module = cast("object", request.module)  # pyright: ignore[reportUnknownMemberType]
    with Tmux(tmp_path, *getattr(module, "WINDOW", ())) as window:
        yield window


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """Return a folder beside the one the command is started in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def write_plan(vibe: VibeCommand) -> Callable[..., str]:
    """Return a function that writes a plan file from its steps, and returns its name."""

    def write(*steps: dict[str, Any], **fields: Any) -> str:
        document = {"version": 1, "goal": "Try something", "steps": list(steps), **fields}
        (vibe.workdir / "plan.json").write_text(json.dumps(document))
        return "plan.json"

    return write


def command_step(step_id: str, command: str, **fields: Any) -> dict[str, Any]:
    """Return a step that runs a command."""
    return {"id": step_id, "title": f"Step {step_id}", "mode": "run", "command": command, **fields}


def interrupt(process: subprocess.Popen[bytes], which: signal.Signals = signal.SIGINT) -> None:
    """Send one signal and wait until the process has received it, because two pending ones would merge into one."""
    process.send_signal(which)
    until(lambda: process.poll() is not None or not _is_pending(process.pid, which))


def stop_at_once(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C twice and wait for the end. The second press skips the grace period after SIGTERM."""
    interrupt(process)
    interrupt(process)
    process.wait(timeout=120)


def _is_pending(pid: int, which: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask >> which - 1 & 1 for mask in masks)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its content, except the time at which the home was last swept."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != ".swept"
    }


def leftovers(folder: Path) -> list[str]:
    """Return the command lines of processes that still work below a folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text(errors="replace"))
        except OSError:
            continue
    return found
