"""What every test gets: a loop that refuses blocking calls, and a home folder of its own."""

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

# A machine that is busy with something else makes no example wrong, and no change is judged by examples drawn by lot:
# every run has the same. `pytest --hypothesis-profile search` draws others.
settings.register_profile("search", deadline=None)
settings.register_profile("the-same", deadline=None, derandomize=True)
settings.load_profile("the-same")

# No test touches the keyring of whoever runs it.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"

BOUND_TO_TIME = ("tests/e2e/", "tests/integration/", "tests/unit/cli/textual_ui/")
"""The tests that wait for other processes, or for a screen's next frame: one that fails on a machine that is too busy is
tried twice more by `.ci/run`, which names it. A developer's run is strict.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have those tried again where all must be there."""
    for item in items:
        if "EVERY_PROGRAM" in os.environ and item.nodeid.startswith(BOUND_TO_TIME):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=2))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests are collected, and stay: neither then nor later is garbage among them looked for."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*COLLECTED_AT)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have pictures of the screen taken anew."""
    parser.addoption(ACCEPT, action="store_true", help="the screen is as it should be: keep its pictures")


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a fresh checkout each worker would rewrite the assertions of all files: of a whole run it does its share."""
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
    # Imports are put off into the function that needs them; the first call pays, once.
    ("<frozen importlib._bootstrap>", {"_find_and_load", "_lock_unlock_module"}),
    # A record must be on its way to the disk before what it records goes on: one small write, and a sync where said.
    ("ipc/journal.py", {"append"}),
    ("planner/store/journal.py", {"append"}),
    ("vibe/core/session/folder.py", {"append"}),
    ("vibe/app/plan/usage_history.py", {"publish"}),
    # What a run left for its temporary files goes with it, whenever its garbage is collected: with another run's loop on.
    ("vibe/shell/sandbox/temporary.py", {"_end"}),
    # A line in the log, where something went wrong; and the events that --output-dir keeps, on their way to the disk.
    ("vibe/cli/log_file.py", {"emit", "_make_room"}),
    ("vibe/cli/commands/one_prompt.py", {"publish"}),
    # What a step's process says is with the run before it goes on: it may die the moment after. The other two tell the
    # system not to wait.
    ("subagents/process/transport.py", {"post", "send", "receive"}),
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
"""Not watched: they cost microseconds where a thread costs a hundred."""


@pytest.fixture(scope="session", autouse=True)
def watchdog() -> Iterator[BlockBuster]:
    """Raises BlockingError where our code blocks a running loop; on for every test."""
    with blockbuster_ctx(OUR_PACKAGES) as blockbuster:
        for name, function in blockbuster.functions.items():
            if name in LOOKUPS:
                function.deactivate()
            for filename, functions in MAY_BLOCK:
                function.can_block_in(filename, functions)
        yield blockbuster


@pytest.fixture
def vibe_home(tmp_path: Path) -> Path:
    """An empty vibe folder, the user's alone."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture(autouse=True)
def no_local_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same built-in models, whether the extra for local ones is installed or not."""
    if request.node.get_closest_marker("local_model") is None:
        monkeypatch.setitem(cast("dict[str, Any]", sys.modules), LOCAL_ENGINE, None)
