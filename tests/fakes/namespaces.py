"""Separate networks, joined by cables that can be cut, with nodes of a cluster in them. They need root and ``ip``."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from subagents.remote.places import SETTINGS_VARIABLE
from tests.fakes.programs import missing
from tests.integration.subagents.worktree.rig import environment

CLONE_NEWNET = 0x40000000
"""From ``sched.h``. Python has it from 3.12 on."""


def ip(*words: str) -> None:
    """Run ``ip``, and raise if it fails."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def skip_without_networks() -> None:
    """Skip the test, with the reason, if no network can be made here."""
    if os.geteuid() != 0:
        pytest.skip("only root can make networks of their own")
    if shutil.which("ip") is None:
        missing("there is no `ip`: install iproute2")
    probe = own_name("probe")
    tried = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"the system lets root make no network here: {tried.stderr.strip()}")
    ip("netns", "delete", probe)


def own_name(of: str) -> str:
    """Return a name that no other test run on this machine uses, because networks and devices belong to the machine."""
    return f"v{os.getpid()}{of}"


@contextmanager
def own_network() -> Generator[None]:
    """Move this thread, and the processes it starts, into a network of its own.

    A browser drops what it loads when cables of its network come and go; one that runs outside is not disturbed. See
    ``setns(2)`` and ``unshare(2)``.

    Raises:
        OSError: The system refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def entered(status: int) -> None:
        if status:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    with Path("/proc/thread-self/ns/net").open() as before:
        entered(libc.unshare(CLONE_NEWNET))
        try:
            ip("link", "set", "lo", "up")
            yield
        finally:
            entered(libc.setns(before.fileno(), CLONE_NEWNET))


@contextmanager
def network(of: str) -> Generator[str]:
    """Make a network that is not joined to any other, and yield its name."""
    name = own_name(of)
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "delete", name)


def cable(number: int, there: str, here: str | None = None) -> tuple[str, str]:
    """Join two networks (``here`` None is the test's) and return the addresses there and here.

    To cut the cable, set the device ``far<number>`` down in the network ``there``.
    """
    at_here = () if here is None else ("-n", here)
    near = own_name(f"n{number}")
    ip(*at_here, "link", "add", near, "type", "veth", "peer", "name", f"far{number}", "netns", there)
    own, other = f"10.213.{number}.1", f"10.213.{number}.2"
    ip(*at_here, "address", "add", f"{own}/24", "dev", near)
    ip("-n", there, "address", "add", f"{other}/24", "dev", f"far{number}")
    ip(*at_here, "link", "set", near, "up")
    ip("-n", there, "link", "set", f"far{number}", "up")
    return other, own


class Nodes:
    """Nodes of a cluster, started as ``vibe cluster`` starts them, each in a network (None is the test's)."""

    def __init__(self, base: Path, certificates: tuple[str, ...]) -> None:
        self._base = base
        self._certificates = certificates
        self._stack = ExitStack()
        self._count = 0

    def start(self, kind: str, address: str, net: str | None, **settings: Any) -> str:
        """Start a node and return the address that it prints. Blocks until it serves."""
        return self.begin(kind, address, net, **settings).readline().strip()

    def begin(self, kind: str, address: str, net: str | None, **settings: Any) -> IO[str]:
        """Start a node and return the stream to which it will print its address."""
        self._count += 1
        folder = self._base / f"{kind}{self._count}"
        words = [sys.executable, "-P", "-m", "subagents.cluster.node", kind, address, "1", str(folder / "dask")]
        told = json.dumps({"folder": str(folder), **settings})
        process = subprocess.Popen(
            [
                *(() if net is None else ("ip", "netns", "exec", net)),
                *words,
                str(os.getpid()),
                "0",
                *self._certificates,
            ],
            env={**environment(), SETTINGS_VARIABLE: told, "HOME": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        self._stack.callback(process.stdout.close)
        return process.stdout

    def end(self) -> None:
        """Kill all nodes."""
        self._stack.close()
