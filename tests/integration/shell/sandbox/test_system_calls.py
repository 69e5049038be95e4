"""System calls that reach past a sandbox, each tried by a line inside it."""

from __future__ import annotations

import platform
import shlex
import sys

import pytest

from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.lab import tried

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are sandboxes for Linux only"),
    pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="the numbers are of these machines"),
]

TRY = """
import ctypes, errno, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
CALLS = {
    "add_key": (248, 217, b"user", b"canary", b"x", 1, -4), "request_key": (249, 218, b"user", b"canary", 0, 0),
    "keyctl": (250, 219, 0, -4, 0), "io_uring_setup": (425, 425, 4, bytes(120)), "userfaultfd": (323, 282, 1),
    "bpf": (321, 280, 0, bytes(72), 72), "perf_event_open": (298, 241, bytes(128), 0, -1, -1, 0),
    "open_by_handle_at": (304, 265, -100, bytes(16), 0), "mount": (165, 40, b"a", b"/", b"tmpfs", 0, 0),
    "open_tree": (428, 428, -100, b"/", 1), "fsopen": (430, 430, b"tmpfs", 0), "unshare": (272, 97, 0x10000000),
    "clone": (56, 220, 0x10000011, 0, 0, 0, 0), "clone3": (435, 435, bytes(88), 88), "setns": (308, 268, 0, 0),
    "kexec_load": (246, 104, 0, 0, 0, 0), "finit_module": (313, 273, 0, b"", 0), "syslog": (103, 116, 3, bytes(9), 9),
}
for name, (x86, arm, *arguments) in CALLS.items():
    ctypes.set_errno(0)
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long((x86, arm)[column]), *words)
    if result == 0 and name.startswith("clone"):
        os._exit(0)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print("OPEN", name, result, ctypes.get_errno())
for family, kind, protocol in ((1, 1, 0), (1, 2, 0), (16, 3, 15), (16, 3, 4), (16, 3, 12), (17, 3, 0), (38, 5, 0), (40, 1, 0)):
    try:
        socket.socket(family, kind, protocol)
        print("OPEN family", family, protocol)
    except OSError as error:
        if error.errno != errno.EACCES:
            print("OPEN family", family, protocol, error)
pair = socket.socketpair()
pair[0].send(b"a pair"), print(pair[1].recv(9))
import threading
thread = threading.Thread(target=print, args=("a thread",)); thread.start(); thread.join()
"""
X32 = (
    "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.syscall(0x40000000 + 39), ctypes.get_errno())"
)


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_what_reaches_past_the_sandbox_is_refused(backend: str, who: str) -> None:
    result = tried(backend, who, [f"python3 -I -c {shlex.quote(TRY)}", f"python3 -I -c {shlex.quote(X32)}"])
    assert result.outputs[0].split("\n")[:2] == ["b'a pair'", "a thread"]
    assert "OPEN" not in result.outputs[0]
    if platform.machine() == "x86_64":
        assert result.outputs[1] == "-1 38\n"


async def test_a_debugger_looks_at_its_own_and_addresses_are_told(bubblewrap: Cell) -> None:
    trace = "import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))"
    ended = await bubblewrap.run(
        f"python3 -I -c '{trace}'; python3 -I -c 'import socket; print(socket.if_nameindex())'"
    )
    assert ended.stdout == "0\n[(1, 'lo')]\n", ended.stderr


async def test_the_read_only_sandbox_filters_too(bubblewrap: Cell) -> None:
    ended = await bubblewrap.run(f"python3 -I -c {shlex.quote(TRY)}", read_only=True)
    assert "a thread" in ended.stdout, ended.stderr
    assert "OPEN" not in ended.stdout
