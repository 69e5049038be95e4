from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vibe.core.sandbox.temporary import PREFIX, temporary_folder

PROGRAM = (
    "import sys; from vibe.core.sandbox.temporary import temporary_folder\n"
    "(temporary_folder(sys.argv[1]) / 'file').write_text('x'); print('there', flush=True); sys.stdin.read()"
)


def holder(base: Path) -> subprocess.Popen[str]:
    """A process that has a folder, and waits for the end of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, base], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def test_it_goes_with_the_process(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        (folder,) = tmp_path.iterdir()
        assert folder.name.startswith(PREFIX)
        process.communicate("")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("killed", [True, False])
def test_the_next_process_removes_those_of_the_dead_and_no_others(tmp_path: Path, *, killed: bool) -> None:
    other = tmp_path / f"{PREFIX}file"
    other.touch()
    with holder(tmp_path) as process:
        (theirs,) = (path for path in tmp_path.iterdir() if path.is_dir())
        if killed:
            process.kill()
            process.wait()

        mine = temporary_folder(str(tmp_path))

        assert theirs.exists() is not killed
        assert mine.is_dir()
        assert other.exists()
        process.communicate()
