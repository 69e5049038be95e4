"""Forks of ``tests.fakes.warm`` are like processes that were executed.

Covers ``vibe.cli``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.fakes.warm import AT_THE_START, WarmVibe, can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="there is no call that forks a sibling")
EXECUTES = True
OF_SYSCONFIG = ("_PYTHON_PROJECT_BASE", "_PYTHON_SYSCONFIGDATA_NAME")
FACTS = """
import gc, json, locale, os, signal, sys, threading
streams = (sys.stdin, sys.stdout, sys.stderr)
mask = os.umask(0)
print(json.dumps({
    "arguments": sys.argv[1:],
    "loop": getattr(sys.modules.get("asyncio.events"), "_get_running_loop", lambda: None)(),
    "collected at": [gc.isenabled(), gc.get_threshold()],
    "descriptors": [one for one in range(3, 100) if os.path.exists(f"/proc/self/fd/{one}")],
    "environ": dict(os.environ),
    "folder": os.getcwd(),
    "group": os.getpgrp() == os.getpid(),
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, threading.excepthook is threading.__excepthook__],
    "limits": [sys.getrecursionlimit(), sys.getswitchinterval()],
    "locale": [locale.getlocale(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()],
    "main": [__name__, __file__, __spec__ and __spec__.name, sys.modules["__main__"].__dict__ is globals()],
    "mask": mask,
    "name": open("/proc/self/comm").read(),
    "parent": os.getppid(),
    "path": sys.path,
    "program": [sys.executable, sys.prefix, os.readlink("/proc/self/exe")],
    "read": sys.stdin.read(),
    "session": os.getsid(0) == os.getpid(),
    "signals": {int(one): repr(signal.getsignal(one)).partition(" at ")[0] for one in signal.valid_signals()},
    "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    "streams": [[s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, s.mode, s.fileno()] for s in streams],
    "originals": [sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr],
    "threads": [len(os.listdir("/proc/self/task")), threading.current_thread() is threading.main_thread()],
    "warnings": sys.warnoptions,
}))
if len(sys.argv) > 2:
    exec(sys.argv[2])
"""  # fmt: skip
READS = """
import json, os, sys
sys.path[0] = os.getcwd()
seen = set()
class Watched(type(os.environ)):
    def __getitem__(self, name):
        seen.add(name)
        return super().__getitem__(name)
    def __iter__(self):
        seen.add("all variables")
        return super().__iter__()
os.environ.__class__ = Watched
places = (sys.prefix, sys.base_prefix, os.getcwd())
def hook(event, args):
    named = event in ("open", "os.listdir", "os.scandir") and not isinstance(args[0], int)
    if named and not str(args[0]).startswith(places):
        seen.add(f"{event} {args[0]}")
    if event in ("subprocess.Popen", "os.fork", "socket.connect", "socket.bind", "os.chdir"):
        seen.add(f"{event} {args[0]}")
sys.addaudithook(hook)
from tests.fakes.warm_server import load
load()
print(json.dumps(sorted(seen)))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a program that tells how it was started."""
    path = tmp_path_factory.mktemp("scripts") / "facts"
    path.write_text(f"#!{sys.executable}\n{FACTS}")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def warm(program: Path) -> Iterator[WarmVibe]:
    """Yield a server that forks the program."""
    with WarmVibe([program]) as one:
        yield one


def started(warm: WarmVibe | None, argv: Sequence[str | Path], monkeypatch: pytest.MonkeyPatch, **given: Any) -> Any:
    """Start a program and return how it ended, what it wrote to stdout and stderr, and whether it was forked."""
    before = warm.forks if warm else 0
    with monkeypatch.context() as patched:
        if warm is not None:
            patched.setattr(subprocess.Popen, "_execute_child", warm.method)
        process = cast(
            "subprocess.Popen[bytes]",
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given),
        )
    out, err = process.communicate(b"given" if process.stdin else None, timeout=60)
    return process.returncode, out, err, warm is not None and warm.forks > before


@pytest.mark.parametrize("mask", [0o022, 0o077])
@pytest.mark.parametrize(
    "given",
    [
        {"stdin": subprocess.DEVNULL},
        {"stdin": subprocess.PIPE},
        {"stdin": subprocess.DEVNULL, "start_new_session": True},
    ],
    ids=str,
)
def test_a_fork_has_what_an_executed_program_has(
    warm: WarmVibe, program: Path, vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], mask: int
) -> None:
    argv = [program, "a word", "", "é\n"]
    before = os.umask(mask)
    try:
        told = [
            started(one, argv, monkeypatch, cwd=vibe.workdir, env=vibe.variables(), **given) for one in (None, warm)
        ]
    finally:
        os.umask(before)

    assert [forked for *_, forked in told] == [False, True]
    executed, forked = (json.loads(out) for _, out, *_ in told)
    assert forked == executed
    assert told[0][0] == told[1][0] == 0
    assert told[0][2] == told[1][2] == b""


@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(3)",
        "sys.exit('a reason')",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "signal.raise_signal(signal.SIGKILL)",
        "os.abort()",
        "os._exit(7)",
        "import atexit; atexit.register(print, 'at the end'); sys.exit(300)",
        "threading.Thread(target=lambda: (__import__('time').sleep(0.05), print('later'))).start()",
    ],
)
def test_it_ends_as_an_executed_program_does(
    warm: WarmVibe, program: Path, vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    argv = [str(program), "x", end]
    told = [started(one, argv, monkeypatch, cwd=vibe.workdir, env=vibe.variables()) for one in (None, warm)]

    (code, out, err, _), (forked_code, forked_out, forked_err, is_fork) = told
    assert is_fork
    assert (forked_code, forked_err, forked_out.splitlines()[1:]) == (code, err, out.splitlines()[1:])


def test_what_is_told_of_an_error_is_the_same_but_for_the_frames_of_the_server(
    warm: WarmVibe, program: Path, vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = [str(program), "x", "1 / 0"]
    told = [started(one, argv, monkeypatch, cwd=vibe.workdir, env=vibe.variables()) for one in (None, warm)]
    assert [(code, err.splitlines()[-1], is_fork) for code, _, err, is_fork in told] == [
        (1, b"ZeroDivisionError: division by zero", False),
        (1, b"ZeroDivisionError: division by zero", True),
    ]


def test_descriptors_are_passed_under_their_numbers(
    warm: WarmVibe, program: Path, vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    argv = [str(program), "x", f"os.write({writing}, b'heard')"]
    code, out, _, is_fork = started(warm, argv, monkeypatch, cwd=vibe.workdir, env=vibe.variables(), pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert (code, is_fork, pipe.read()) == (0, True, b"heard")
    assert json.loads(out.splitlines()[0])["descriptors"] == [writing]


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({"LANG": "C"}, {}),
        ({"LC_ALL": "C.UTF-8"}, {}),
        ({"PYTHONHASHSEED": "1"}, {}),
        ({"PYTHONPATH": "."}, {}),
        ({"TZ": "Asia/Tokyo"}, {}),
        ({"LD_PRELOAD": ""}, {}),
        ({"MUCH": "x" * 100_000}, {}),
        ({}, {"preexec_fn": os.getpid}),
        ({}, {"close_fds": False}),
        ({}, {"umask": 0o77}),
        ({}, {"process_group": 0}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_fork_could_not_be_given_is_executed(
    warm: WarmVibe, program: Path, vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch, more: dict[str, str],
    given: dict[str, Any],
) -> None:  # fmt: skip
    argv = [str(program)]
    code, _, _, is_fork = started(warm, argv, monkeypatch, cwd=vibe.workdir, env={**vibe.variables(), **more}, **given)
    assert (code, is_fork) == (0, False)


def test_a_missing_folder_and_other_programs_are_left_to_the_system(
    warm: WarmVibe, program: Path, vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        started(warm, [str(program)], monkeypatch, cwd=vibe.workdir / "gone", env=vibe.variables())
    *_, is_fork = started(warm, [sys.executable, str(program)], monkeypatch, cwd=vibe.workdir, env=vibe.variables())
    assert not is_fork


def test_loading_the_modules_looks_at_nothing_that_a_command_is_given(vibe: VibeCommand) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", READS], cwd=REPOSITORY, env=vibe.variables(), capture_output=True, check=True
    )
    seen = json.loads(ended.stdout)
    # "HOME" is for the folder of a user's own packages, which a virtual environment has not.
    assert [one for one in seen if not AT_THE_START.fullmatch(one) and one not in {"HOME", *OF_SYSCONFIG}] == []
