"""Fixtures and settings of all tests: an event loop that refuses blocking calls, and a home folder for each test."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.assertion import rewrite
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import settings

from tests.fakes.snapshots import ACCEPT
from vibe.cli.main import COLLECTED_AT
from vibe.core.config.models import LOCAL_ENGINE

# A busy machine makes no example wrong, so there is no deadline. No change is judged by random examples: every run has
# the same ones. `pytest --hypothesis-profile search` draws others.
settings.register_profile("search", deadline=None)
settings.register_profile("the-same", deadline=None, derandomize=True)
settings.load_profile("the-same")

# No test touches the keyring of the person who runs it.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"

BOUND_TO_TIME = ("tests/e2e/", "tests/integration/", "tests/unit/cli/textual_ui/")
"""Tests that wait for other processes, or for a screen's next frame, and so may fail on a machine that is too busy.

`.ci/run` tries such a failure up to twice more, and names the test. A developer's run is strict.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let time-bound tests be tried again in runs where every program must be present."""
    for item in items:
        if "EVERY_PROGRAM" in os.environ and item.nodeid.startswith(BOUND_TO_TIME):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=2))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and freeze the result.

    The ten thousand collected tests stay, so looking for garbage among them is wasted.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*COLLECTED_AT)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that accepts the screenshots as they are now."""
    parser.addoption(ACCEPT, action="store_true", help="the screen is as it should be: keep its pictures")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite this worker's share of the test files' assertions before a whole run.

    In a fresh checkout each worker would otherwise rewrite those of all files.
    """
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    here = Path(__file__).parent
    if not worker or sys.dont_write_bytecode or [here] != [Path(one).resolve() for one in session.config.args]:
        return
    for path in sorted(here.rglob("test_*.py"))[int(worker.removeprefix("gw")) :: count]:
        rewritten = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        if not rewritten.exists() and rewrite.try_makedirs(rewritten.parent):
            found, code = rewrite._rewrite_test(path, session.config)  # pyright: ignore[reportPrivateUsage]
            rewrite._write_pyc(session.config.stash[rewrite.assertstate_key], code, found, rewritten)  # pyright: ignore[reportPrivateUsage]


OUR_PACKAGES = ["vibe", "planner", "subagents", "ipc"]

MAY_BLOCK = (
    # Imports are deferred into the function that needs them; the first call pays, once.
    ("<frozen importlib._bootstrap>", {"_find_and_load", "_lock_unlock_module"}),
    # A record must be on its way to the disk before the run goes on: one small write, and a sync where specified.
    ("ipc/journal.py", {"append"}),
    ("planner/store/journal.py", {"append"}),
    ("vibe/core/session/folder.py", {"append"}),
    ("vibe/app/plan/usage_history.py", {"publish"}),
    # A run's temporary files are removed when its garbage is collected, which may be while another run's loop is
    # running.
    ("vibe/shell/sandbox/temporary.py", {"_end"}),
    # A line in the log when something went wrong, and the events that --output-dir keeps, on their way to the disk.
    ("vibe/cli/log_file.py", {"emit", "_make_room"}),
    ("vibe/cli/commands/one_prompt.py", {"publish"}),
    # A step's process may die at any moment, so what it says must reach the run before it goes on. The other two do
    # not wait for the socket.
    ("subagents/process/transport.py", {"post", "send", "receive"}),
    # Forks a process where the system would start one, which waits for it, too.
    ("tests/fakes/warm.py", {"_forks"}),
)

LOOKUPS = frozenset({
    "os.stat",
    "os.access",
    "os.getcwd",
    "os.readlink",
    "os.path.abspath",
    "os.path.islink",
    "os.path.ismount",
    "os.path.sameopenfile",
    "os.path.samestat",
})
"""Not watched: they take microseconds, and moving one to a thread takes a hundred."""


@pytest.fixture(scope="session", autouse=True)
def watchdog() -> Iterator[BlockBuster]:
    """Raise BlockingError in every test where our code blocks a running loop."""
    with blockbuster_ctx(OUR_PACKAGES) as blockbuster:
        for name, function in blockbuster.functions.items():
            if name in LOOKUPS:
                function.deactivate()
            for filename, functions in MAY_BLOCK:
                function.can_block_in(filename, functions)
        yield blockbuster


@pytest.fixture
def vibe_home(tmp_path: Path) -> Path:
    """Return an empty vibe home that only the user can read."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture(autouse=True)
def no_local_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the built-in models the same, whether the extra for local ones is installed or not."""
    if request.node.get_closest_marker("local_model") is None:
        monkeypatch.setitem(cast("dict[str, Any]", sys.modules), LOCAL_ENGINE, None)
