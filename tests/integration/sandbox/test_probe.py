"""How a sandbox is tried before it is relied on."""

from __future__ import annotations

import sys

from vibe.core.sandbox.port import Confined
from vibe.core.sandbox.probe import failure


def probed(program: str) -> str:
    return failure(Confined(argv=(sys.executable, "-I", "-S", "-c", program), environ={}))


def test_the_terminals_signals_and_input_are_none_of_its_business() -> None:
    said = probed("import os, sys; sys.exit(f'{os.getsid(0) == os.getpid()} {sys.stdin.read()!r}')")

    assert said == "True ''"


def test_it_says_why_it_failed() -> None:
    assert probed("pass") == ""
    assert probed("raise SystemExit(3)") == "exit code 3"
    assert "nowhere" in failure(Confined(argv=("/nowhere",), environ={}))
