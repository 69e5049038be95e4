from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes.waiting import until
from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.plain import run_plain
from vibe.shell.sandbox.records import put_back_abandoned, records_of

PROGRAM = """
import sys
from pathlib import Path
import anyio
from tests.integration.shell.sandbox.cell import Cell
anyio.run(Cell(Path(sys.argv[1]), sys.argv[2]).run, f"setsid sleep {sys.argv[3]} & sleep {sys.argv[3]}; :")
"""


def test_what_is_confined_dies_with_us_in_whatever_session(cell: Cell) -> None:
    seconds = f"96{os.getpid()}.{len(cell.backend)}"
    ours = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(cell.base), cell.backend, seconds], cwd=Path(__file__).parents[4]
    )
    until(lambda: len(_sleepers(seconds)) == 2)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    until(lambda: not _sleepers(seconds))


AT_AN_INSTANT = """
import sys
from pathlib import Path
import anyio
from tests.integration.shell.sandbox.cell import Cell
async def main():
    cell = Cell(Path(sys.argv[1]), sys.argv[2])
    await cell.run(":")
    print(flush=True)
    await cell.run(f"sleep {sys.argv[3]} & sleep {sys.argv[3]}; :")
anyio.run(main)
"""


@pytest.mark.parametrize("ms", range(0, 30, 3))
def test_nothing_confined_is_left_whenever_we_are_killed(cell: Cell, ms: int) -> None:
    seconds = f"97{os.getpid()}.{len(cell.backend)}{ms}"
    ours = subprocess.Popen(
        [sys.executable, "-c", AT_AN_INSTANT, str(cell.base), cell.backend, seconds],
        cwd=Path(__file__).parents[4],
        stdout=subprocess.PIPE,
    )
    assert ours.stdout is not None
    ours.stdout.readline()
    time.sleep(ms / 1_000)  # kills before, while or after the sandbox is made
    ours.kill()
    ours.communicate()
    until(lambda: not _mentioning(seconds))


CHANGING = """
import sys
from pathlib import Path
import anyio
from tests.integration.shell.sandbox.cell import Cell
from tests.fakes.waiting import until
line = "echo evil > .git/config; echo evil > .git/hooks/pre-commit; echo evil > AGENTS.md; mv .vibe v; mkdir .vibe; "
line += "echo evil > .vibe/config.toml; touch changed; sleep 600; :"
cell = Cell(Path(sys.argv[1]), sys.argv[2])
async def after_others():
    async with cell.confinement.at_work():
        await cell.run(":")
        await cell.run("touch new")
        await cell.run(line)
anyio.run(*([cell.run, line] if sys.argv[3] == "the first" else [after_others]))
"""


@pytest.mark.parametrize("which", ["the first", "after others"])
def test_what_decides_what_runs_later_is_put_back_though_we_are_killed(cell: Cell, which: str) -> None:
    run_plain("git init -q .; rm -f .git/hooks/*; mkdir .vibe; echo mine > .vibe/config.toml", cell.root, cell.environ)
    config = (cell.root / ".git" / "config").read_text()
    ours = subprocess.Popen(
        [sys.executable, "-c", CHANGING, str(cell.base), cell.backend, which], cwd=Path(__file__).parents[4]
    )
    until((cell.root / "changed").exists)
    ours.kill()
    ours.wait()
    records = records_of(cell.confinement.vibe_home)
    if cell.backend == "landlock":  # its guardian restores the settings
        until(lambda: not any(records.iterdir()))
    put_back_abandoned(records)
    assert (cell.root / ".git" / "config").read_text() == config
    assert (cell.root / ".vibe" / "config.toml").read_text() == "mine\n"
    assert not (cell.root / ".git" / "hooks" / "pre-commit").exists()
    assert not (cell.root / "AGENTS.md").exists()
    assert not any(records.iterdir())


def test_a_record_that_was_never_written_stops_nobody(tmp_path: Path) -> None:
    for name in ("a.json", "b.new"):
        (tmp_path / name).touch()
    assert put_back_abandoned(tmp_path) == ""
    assert not any(tmp_path.iterdir())


def _mentioning(seconds: str) -> list[Path]:
    """Return processes with this word among their arguments: those that make the sandbox, and those inside."""
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if seconds.encode() in path.read_bytes():
                found.append(path)
    return found


def _sleepers(seconds: str) -> list[Path]:
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(path)
        except OSError:
            continue
    return found
