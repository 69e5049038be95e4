"""The process behind ``tests.fakes.warm``: it has loaded vibe, and becomes the commands it is asked for, by forking.

``python warm_server.py DESCRIPTOR``. It has no thread and no loop, and calls nothing of what it loads.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib.util
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal, cast

CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call, by kind of machine."""
CLONE_PARENT = 0x8000
STDERR = 2
MOST_BYTES = 256 * 1024
MOST_DESCRIPTORS = 64
PACKAGES = ("ipc", "planner", "subagents", "vibe")
NOT_LOADED = (
    "subagents.cluster",
    "vibe.app.cluster",
    "vibe.app.inspect.cluster",
    "vibe.app.plan.cluster",
    "vibe.app.telemetry",
    "vibe.cli.textual_ui",
)
"""What few commands need, with libraries that look about while they are loaded."""


def load() -> None:
    """Import our modules, and the library that most of them leave for later."""
    top = Path(__file__).parents[2]
    for file in sorted(file for package in PACKAGES for file in (top / package).rglob("*.py")):
        name = ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(NOT_LOADED) and not name.rpartition(".")[2].startswith("_"):
            import_module(name)
    import_module("httpx2")


def serve(requests: socket.socket) -> dict[str, Any]:
    """Fork a process for each request. Returns the request in the new process; ends when nobody can ask any more."""
    while True:
        data, descriptors, *_ = socket.recv_fds(requests, MOST_BYTES, MOST_DESCRIPTORS)
        if not data:
            sys.exit()
        if not (pid := fork_sibling()):
            requests.close()
            request = json.loads(data)
            become(request, descriptors)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(str(pid).encode())


def fork_sibling() -> int:
    """Fork a process whose parent is ours, so that those who ask have a child like any other that they start."""
    call = ctypes.PyDLL(None).syscall
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = call(CLONE[os.uname().machine], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    (ctypes.pythonapi.PyOS_AfterFork_Parent if pid else ctypes.pythonapi.PyOS_AfterFork_Child)()
    return pid


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Take over what a new process gets from the one that starts it, and nothing of what this one has besides."""
    if request["session"]:
        os.setsid()
    numbers: list[int] = request["descriptors"]
    kept = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, max(numbers) + 1) for one in descriptors]
    for one, number in zip(kept, numbers, strict=True):
        os.dup2(one, number)
    for one in set(range(max(kept) + 1)) - set(numbers):
        with suppress(OSError):  # most are not open
            os.close(one)
    os.umask(request["umask"])
    os.chdir(request["cwd"])  # noqa: TID251  a new process, which is nobody's workspace yet
    os.environ.clear()
    os.environ.update(request["environ"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = stream_on(number, "w" if number else "r", getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def stream_on(number: int, mode: Literal["r", "w"], like: Any) -> TextIOWrapper:
    """Open a standard stream as Python does when it starts."""
    stream = open(number, mode, encoding=like.encoding, errors=like.errors, closefd=False)  # noqa: SIM115
    if mode == "w":
        stream.reconfigure(line_buffering=number == STDERR or os.isatty(number))
    return stream


def run(argv: list[str]) -> None:
    """Run what ``python [-P -m MODULE | SCRIPT] ARGUMENTS`` runs, as the main module."""
    sys.orig_argv[1:] = argv
    if argv[:2] == ["-P", "-m"]:
        name, arguments = argv[2], argv[3:]
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        script = spec.origin
        code: CodeType = cast("Any", spec.loader).get_code(name)
        del sys.modules[name]
        del sys.path[0]
    else:
        script, arguments, spec = argv[0], argv[1:], None
        code = compile(Path(script).read_bytes(), script, "exec")
        sys.path[0] = str(Path(script).parent)
    sys.argv[:] = [script, *arguments]
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(__file__=script, __spec__=spec, __builtins__=__builtins__)
    Path("/proc/self/comm").write_text(Path(argv[0]).name if spec is None else "python")
    exec(code, main.__dict__)  # noqa: S102  what the command would run


if __name__ == "__main__":
    asked = socket.socket(fileno=int(sys.argv[1]))
    sys.path[0] = str(Path(sys.executable).parent)  # the folder of the scripts; ours has modules of any name
    load()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread does not live on in a fork"
    gc.collect()
    gc.freeze()
    asked.send(b"ready")
    run(serve(asked)["argv"])
