"""A sandbox is tried before it is relied on."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.programs import missing
from vibe.shell.sandbox import bubblewrap, probe
from vibe.shell.sandbox.choose import choose_sandbox
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.port import SandboxRun, SandboxUnprovenError
from vibe.shell.sandbox.probe import failure
from vibe.shell.sandbox.settings import SandboxConfig, SandboxMode


def probed(program: str) -> str:
    return failure(SandboxRun(argv=(sys.executable, "-I", "-S", "-c", program), environ={}))


def test_the_terminals_signals_and_input_are_none_of_its_business() -> None:
    said = probed("import os, sys; sys.exit(f'{os.getsid(0) == os.getpid()} {sys.stdin.read()!r}')")

    assert said == "True ''"


def test_it_says_why_it_failed() -> None:
    assert probed("pass") == ""
    assert probed("raise SystemExit(3)") == "exit code 3"
    assert "nowhere" in failure(SandboxRun(argv=("/nowhere",), environ={}))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT])
def test_what_passes_is_no_evidence(number: int) -> None:
    with pytest.raises(SandboxUnprovenError, match="try again"):
        probed(f"raise SystemExit('bwrap: Creating new namespace failed: {os.strerror(number)}')")


def test_neither_is_being_killed_nor_a_lack_of_memory_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("import os; os.kill(os.getpid(), 9)", "raise MemoryError"):
        with pytest.raises(SandboxUnprovenError):
            probed(program)
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.2)
    with pytest.raises(SandboxUnprovenError, match="no answer"):
        probed("import time; time.sleep(60)")


def test_a_limit_that_forbids_namespaces_for_good_is_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "LIMITS", tmp_path)
    (tmp_path / "max_user_namespaces").write_text("0\n")
    assert "No space" in probed("raise SystemExit('bwrap: Creating new namespace failed: No space left on device')")


SHIM = """#!/bin/sh
[ "$1" = --version ] && echo bubblewrap 1 && exit
[ -e {short} ] || exit 0
echo "bwrap: Creating new namespace failed: Resource temporarily unavailable" >&2
exit 1
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are sandboxes for Linux only")
@pytest.mark.parametrize("mode", [SandboxMode.AUTO, SandboxMode.REQUIRED])
def test_the_next_command_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: SandboxMode) -> None:
    short, shim = tmp_path / "short", tmp_path / "bwrap"
    shim.write_text(SHIM.format(short=short))
    shim.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "SYSTEM_PROGRAMS", (str(shim),))
    short.touch()
    confinement = Confinement(SandboxConfig(mode=mode), {"TMPDIR": str(tmp_path)}, tmp_path)
    for _ in range(2):
        with pytest.raises(SandboxUnprovenError):
            confinement.choice()
    assert not confinement.weakness
    short.unlink()
    assert confinement.choice().reason == "bubblewrap 1"


FEW_FILES = """
import os, resource, sys
from pathlib import Path
from vibe.shell.sandbox.settings import SandboxConfig
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.port import SandboxUnprovenError
confinement = Confinement(SandboxConfig(), {"TMPDIR": sys.argv[1]}, Path(sys.argv[1]), backends=[sys.argv[2]])
highest = max(map(int, os.listdir("/proc/self/fd")))
tried = set()
for room in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + room, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        tried.add(confinement.choice().sandbox is not None)
    except SandboxUnprovenError:
        pass
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(tried, confinement.choice().sandbox is not None)
"""


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_however_few_files_can_be_opened_no_sandbox_is_given_up(tmp_path: Path, backend: str) -> None:
    if choose_sandbox(SandboxMode.AUTO, os.environ, [backend]).sandbox is None:
        missing(f"{backend} does not work here")
    words = [sys.executable, "-c", FEW_FILES, str(tmp_path), backend]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout.strip().endswith("True"), ended.stderr
    assert "False" not in ended.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are sandboxes for Linux only")
def test_without_room_for_temporary_files_nothing_is_found_out(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": "/proc"}
    program = FEW_FILES.partition("highest =")[0] + (
        "import tempfile; tempfile.tempdir = '/proc'\n"
        "try: print(confinement.choice())\nexcept SandboxUnprovenError as error: print('unproven', error)"
    )
    words = [sys.executable, "-c", program, str(tmp_path), "bubblewrap"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=environ)
    assert ended.stdout.startswith("unproven"), ended.stderr
