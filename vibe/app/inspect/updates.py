"""Looks for a newer version of vibe, at most once a day, by asking the program that installed this one."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from anyio import to_thread
from msgspec import Struct, field, json
from packaging.version import InvalidVersion, Version

from ipc.errors import read_json_file
from vibe import __version__
from vibe.app.engine.host import Host
from vibe.core.config.models import UpdatesConfig
from vibe.core.config.paths import VibePaths
from vibe.shell.errors import CommandStartError
from vibe.shell.process.runner import run_command
from vibe.system.files import replace_file
from vibe.system.programs import find_program

PACKAGE = "vibe-orchestrator"
EVERY_SECONDS = 24 * 60 * 60.0
MOST_SECONDS = 30.0
"""The time that the program has to answer."""
LONGEST_VERSION = 60
NOWHERE = Path("/")
"""The folder in which it is asked, since settings of a project must not say where vibe comes from."""
_OFFERED = re.compile(rf"^(?: \+ {PACKAGE}==(\S+)|{PACKAGE} \((\S+)\))$", re.MULTILINE)


class Installation(Struct, frozen=True, kw_only=True):
    """The way in which this vibe was installed from an index."""

    question: tuple[str, ...]
    """The command that asks for the newest version and changes nothing."""
    upgrade: str
    """The command line with which a person upgrades it."""


class _LastCheck(Struct, frozen=True, kw_only=True):
    at: float = field(default=0.0, name="checked")
    newest: str = ""
    """Empty if none was found."""


def find_installation(environ: Mapping[str, str], prefix: Path, python: str = sys.executable) -> Installation | None:
    """Return how the vibe of this interpreter was installed; None if not from an index, or by an unknown program.

    ``prefix`` is the interpreter's folder. Reads files.
    """
    found = next(iter(metadata.distributions(name=PACKAGE, path=_places(prefix))), None)
    if found is None or found.read_text("direct_url.json") is not None:
        return None
    installer = (found.read_text("INSTALLER") or "").strip()
    if installer == "uv" and (uv := find_program("uv", environ)):
        options = ("--dry-run", "--no-deps", "--no-build", "--upgrade", "--python", str(prefix))
        question = (uv, "pip", "install", *options, PACKAGE)
        upgrade = f"uv pip install --upgrade --python {shlex.quote(str(prefix))} {PACKAGE}"
    elif installer == "pip":
        question = (python, "-m", "pip", "index", "versions", "--no-input", "--disable-pip-version-check", PACKAGE)
        upgrade = f"{shlex.quote(python)} -m pip install --upgrade {PACKAGE}"
    else:
        return None
    if (prefix / "uv-receipt.toml").is_file():
        upgrade = f"uv tool upgrade {PACKAGE}"
    elif (prefix / "pipx_metadata.json").is_file():
        upgrade = f"pipx upgrade {PACKAGE}"
    return Installation(question=question, upgrade=upgrade)


async def look_for_update(host: Host, settings: UpdatesConfig, say: Callable[[str], object]) -> None:
    """Say what the last look found, and look again if that was a day ago. A new finding is said the next time.

    Failures are silent: there may be no network, no index, or no such package.
    """
    if not settings.check:
        return
    installation = await to_thread.run_sync(find_installation, host.environ, Path(sys.prefix))
    if installation is None:
        return
    path = VibePaths(host.home).update_check
    last = await to_thread.run_sync(read_json_file, path, _LastCheck) or _LastCheck()
    if (newest := newer_version(last.newest)) is not None:
        say(f"vibe {newest} is available (you have {__version__}): {installation.upgrade}")
    if 0 <= time.time() - last.at < EVERY_SECONDS:
        return
    found = await newest_version(installation, host.environ)
    await to_thread.run_sync(_write, path, _LastCheck(at=time.time(), newest=found))


async def newest_version(installation: Installation, environ: Mapping[str, str]) -> str:
    """Ask the program that installed this vibe for the newest version; empty if it does not say."""
    try:
        ended = await run_command(installation.question, cwd=NOWHERE, environ=environ, timeout=MOST_SECONDS)
    except CommandStartError:
        return ""
    offered = _OFFERED.search(f"{ended.stdout}\n{ended.stderr}")
    return (offered[1] or offered[2]) if offered is not None and ended.is_success else ""


def newer_version(text: str, than: str = __version__) -> Version | None:
    """Return the version that a text names if it is a release newer than ``than``."""
    if len(text) > LONGEST_VERSION:
        return None
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    return version if version > Version(than) and not version.is_prerelease else None


def _places(prefix: Path) -> list[str]:
    """Return the package folders of an interpreter. For the one running now, these are its real import paths."""
    if prefix == Path(sys.prefix):
        return sys.path
    return [str(folder) for folder in prefix.glob("lib/python*/site-packages")]


def _write(path: Path, last: _LastCheck) -> None:
    with suppress(OSError):
        replace_file(path, json.encode(last), sync=False)
