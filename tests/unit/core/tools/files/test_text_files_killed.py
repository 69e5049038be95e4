from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRITER = """
import os, signal, sys
from pathlib import Path
from vibe.core.tools.files import text_files

flush = os.fsync
def killed(descriptor):
    flush(descriptor)
    os.kill(os.getpid(), signal.SIGKILL)
os.fsync = killed
path = Path(sys.argv[1])
if path.exists():
    text_files.replace_file(path, path.name, b"new", previous=path.read_bytes())
else:
    text_files.create_file(path, path.name, b"new")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a draft has a name")
@pytest.mark.parametrize("before", [None, "old"])
def test_a_process_that_is_killed_while_it_writes_leaves_nothing_in_the_workspace(
    tmp_path: Path, before: str | None
) -> None:
    path = tmp_path / "a.txt"
    if before is not None:
        path.write_text(before)

    ended = subprocess.run([sys.executable, "-c", WRITER, path], check=False)

    assert ended.returncode == -9
    assert {found.name: found.read_text() for found in tmp_path.iterdir()} == (
        {} if before is None else {"a.txt": "old"}
    )
