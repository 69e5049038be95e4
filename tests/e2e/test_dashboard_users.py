"""Two users of one machine, each with a dashboard: neither learns anything about the other's runs.

Covers ``vibe.dashboard``, ``ipc``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct

import vibe
from tests.e2e.conftest import command_step
from tests.fakes.waiting import until

ANA, BEN = 61_001, 61_002
"""User ids that nobody else has."""
EXECUTES = True  # they look at the arguments and variables of processes
PLACES = os.pathsep.join((str(Path(vibe.__file__).parents[1]), str(Path(httpx.__file__).parents[1])))
PYTHONS = (sys.executable, "/usr/bin/python3")
BEGIN = "import sys; from vibe.cli.main import main; sys.exit(main())"


class User(Struct):
    """A user of this machine, whose home is a folder that everybody may look into."""

    uid: int
    home: Path
    python: str
    running: list[subprocess.Popen[str]] = []

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        """Start ``vibe`` as the user."""
        process = subprocess.Popen(
            [self.python, "-c", BEGIN, *words],
            cwd=self.home,
            env={"PATH": os.defpath, "HOME": str(self.home), "LANG": "C.UTF-8", "PYTHONPATH": PLACES, **environ},
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def runs(self, **environ: str) -> dict[str, Any]:
        """Return the runs in the user's list."""
        out, err = self.start("dashboard", "--output", "json", **environ).communicate(timeout=60)
        assert "Traceback" not in err
        return json.loads(out)["runs"] if out else {}

    def may_read(self, path: Path) -> bool:
        """Return True if the user can list the folder or read the file."""
        return _done_by(self.uid, "ls" if path.is_dir() else "cat", str(path))


@pytest.fixture
def users() -> Iterator[tuple[User, User]]:
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can be two users")
    python = next(filter(_runs_for_others, PYTHONS), None)
    if python is None:
        pytest.skip("other users can't run this Python")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        both = [User(uid=uid, home=Path(folder) / str(uid), python=python) for uid in (ANA, BEN)]
        for user in both:
            user.home.mkdir(mode=0o755)
            os.chown(user.home, user.uid, user.uid)
        yield both[0], both[1]
        for process in (process for user in both for process in user.running):
            process.kill()
            process.communicate()


def _runs_for_others(python: str) -> bool:
    script = f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}; import vibe, pynng"
    return _done_by(ANA, python, "-c", script)


def _done_by(uid: int, *words: str) -> bool:
    """Run a program as a user, and return whether it succeeded."""
    with suppress(OSError):  # it may not even start
        done = subprocess.run(
            words,
            check=False,
            capture_output=True,
            cwd="/",
            env={"PYTHONPATH": PLACES},
            user=uid,
            group=uid,
            extra_groups=[],
        )
        return done.returncode == 0
    return False


def test_neither_sees_reads_or_answers_what_is_the_others(users: tuple[User, User]) -> None:
    ana, ben = users
    shared = ana.home.parent / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    runtime = {"XDG_RUNTIME_DIR": str(shared)}
    steps = [command_step("slow", "sleep 60")]
    (ana.home / "plan.json").write_text(json.dumps({"version": 1, "goal": "A secret goal", "steps": steps}))
    run = ana.start("plan", "run", "plan.json", "--auto-approve", **runtime)
    pages = [user.start("dashboard", "--web", "--control", "--output", "json", **runtime) for user in users]
    said, other = (json.loads(page.stdout.readline()) for page in pages if page.stdout is not None)

    def asked(token: str, **options: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"{said['url'].partition('#')[0]}api/runs", headers=headers, **options)

    until(lambda: asked(said["token"]).json()["runs"], 30)
    [name] = ana.runs(**runtime)
    assert ben.runs(**runtime) == {}
    assert ben.runs(VIBE_HOME=str(ana.home / ".vibe"), **runtime) == {}
    assert [asked(token).status_code for token in ("", other["token"])] == [401, 401]
    folder = ana.home / ".vibe"
    kept = [path for path in folder.rglob("*") if path.name in {"journal.jsonl", "publisher.json", "events.ipc"}]
    assert len(kept) > 1
    assert not [path for path in (folder / "run", *kept) if ben.may_read(path)]
    assert list(shared.iterdir()) == []
    for kind in ("cmdline", "environ"):
        assert said["token"].encode() not in Path(f"/proc/{said['pid']}/{kind}").read_bytes()
    refused = ben.start("events", "watch", name, VIBE_HOME=str(folder), **runtime)
    out, err = refused.communicate(timeout=60)
    assert refused.returncode != 0
    assert "secret" not in out + err
    assert "Traceback" not in err
    assert run.poll() is None
