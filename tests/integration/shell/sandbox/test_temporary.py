from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from vibe.shell.sandbox.temporary import PREFIX, temporary_folder

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"


class Owner:
    """Owns a temporary folder."""


OWNER = Owner()

PROGRAM = (
    "import sys; from vibe.shell.sandbox.temporary import temporary_folder\n"
    "(temporary_folder(sys.argv[1], sys) / 'file').write_text('x'); print('there', flush=True); sys.stdin.read()"
)


def holder(base: Path) -> subprocess.Popen[str]:
    """Start a process that has a temporary folder, and waits for the end of its input."""
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


@pytest.mark.parametrize("base", ["missing/folder", "file"])
def test_where_no_folder_can_be_made_the_systems_own_place_is_taken(tmp_path: Path, base: str) -> None:
    (tmp_path / "file").touch()
    owner = Owner()
    folder = temporary_folder(str(tmp_path / base), owner)
    assert folder.parent == Path(tempfile.gettempdir()).resolve()
    del owner
    assert not folder.exists()


def test_it_goes_with_its_owner(tmp_path: Path) -> None:
    owner = Owner()
    folder = temporary_folder(str(tmp_path), owner)
    assert folder.is_dir()

    del owner

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

        mine = temporary_folder(str(tmp_path), OWNER)

        assert theirs.exists() is not killed
        assert mine.is_dir()
        assert other.exists()
        process.communicate()


def test_one_that_got_no_name_before_its_process_was_killed_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from vibe.shell.sandbox.temporary import temporary_folder\n"
        "Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL); temporary_folder(sys.argv[1], sys)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    (left,) = tmp_path.iterdir()

    mine = temporary_folder(str(tmp_path), OWNER)

    assert (left.exists(), mine.is_dir()) == (False, True)


def test_one_that_somebody_took_for_dead_too_soon_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, taken = Path.rename, list[Path]()

    def late(self: Path, target: Path) -> Path:
        if not taken:
            taken.append(self)
            self.rmdir()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)

    mine = temporary_folder(str(tmp_path), OWNER)

    assert taken
    assert list(tmp_path.iterdir()) == [mine]


def test_a_run_that_confines_nothing_takes_away_those_of_the_dead(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "script.json").write_text('{"version": 1, "agents": {"*": {"turns": [{"text": "done"}]}}}')
    (home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "{home}/script.json"\n'
        '[[models]]\nname = "m"\nprovider = "p"\n'
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "VIBE_HOME": str(home), "TMPDIR": str(tmp_path)}
    ended = subprocess.run([VIBE, "-p", "hi"], cwd=home, env=environ, stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == 0
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
