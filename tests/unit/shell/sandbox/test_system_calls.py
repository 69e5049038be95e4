"""The filter of system calls, interpreted as the kernel would, for every machine type it supports."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

import pytest

from vibe.shell.sandbox.system_calls import AF_NETLINK, AF_UNIX, NETWORK_FAMILIES, call_filter

ALLOWED, KILLED = 0, -1
X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
SOCKET, PAIR, CLONE, UNSHARE, IOCTL = "socket", "socketpair", "clone", "unshare", "ioctl"
NUMBERS = {
    "x86_64": {SOCKET: 41, PAIR: 53, CLONE: 56, UNSHARE: 272, IOCTL: 16, "keyctl": 250, "bpf": 321, "ptrace": 101,
               "mount": 165, "open_by_handle_at": 304, "userfaultfd": 323, "kexec_load": 246, "setns": 308,
               "perf_event_open": 298, "init_module": 175, "openat": 257, "io_uring_setup": 425, "clone3": 435},
    "aarch64": {SOCKET: 198, PAIR: 199, CLONE: 220, UNSHARE: 97, IOCTL: 29, "keyctl": 219, "bpf": 280, "ptrace": 117,
                "mount": 40, "open_by_handle_at": 265, "userfaultfd": 282, "kexec_load": 104, "setns": 268,
                "perf_event_open": 241, "init_module": 105, "openat": 56, "io_uring_setup": 425, "clone3": 435},
}  # fmt: skip
Call = Callable[..., int]


def filtered(program: bytes, machine: int, number: int, arguments: tuple[int, ...]) -> int:
    """Return the error number with which a call fails, or ALLOWED or KILLED."""
    data = struct.pack("<IIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = list(struct.iter_unpack("<HBBI", program))
    at, loaded = 0, 0
    while True:
        code, if_so, if_not, value = lines[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", data, value)
            case 0x54:
                loaded &= value
            case 0x06:
                return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(value, value & 0xFFFF)
            case _:
                holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                at += if_so if holds else if_not


@pytest.fixture(params=["x86_64", "aarch64"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def calling(kind: str, families: tuple[int, ...] = NETWORK_FAMILIES, *, alone: bool = True) -> Call:
    program = call_filter(families, alone=alone, kind=kind)
    machine = {"x86_64": X86_64, "aarch64": AARCH64}[kind]

    def call(name: str, *arguments: int) -> int:
        return filtered(program, machine, NUMBERS[kind][name], arguments)

    return call


@pytest.mark.parametrize(
    "name",
    ["keyctl", "bpf", "mount", "open_by_handle_at", "userfaultfd", "kexec_load", "setns", "perf_event_open", "init_module"],
)  # fmt: skip
def test_what_reaches_past_the_sandbox_is_refused(kind: str, name: str) -> None:
    assert calling(kind)(name) == errno.EPERM


def test_what_a_filter_can_not_look_into_is_absent(kind: str) -> None:
    call = calling(kind)
    assert call("clone3") == call("io_uring_setup") == errno.ENOSYS


def test_processes_and_threads_are_made_and_namespaces_are_not(kind: str) -> None:
    call = calling(kind)
    assert call(CLONE, 0x3D0F00) == call(CLONE, 0x1200011) == call(UNSHARE, 0x400) == ALLOWED
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert call(CLONE, flag | 17) == call(UNSHARE, flag) == errno.EPERM
    assert call(UNSHARE, 0x80) == errno.EPERM


def test_nothing_types_into_a_terminal(kind: str) -> None:
    call = calling(kind)
    assert call(IOCTL, 0, 0x5412) == call(IOCTL, 0, 0x541C) == errno.EPERM
    assert call(IOCTL, 0, 0xFFFFFFFF_00005412) == errno.EPERM
    assert call(IOCTL, 0, 0x5401) == call("openat", 0) == ALLOWED


def test_a_debugger_is_allowed_where_it_sees_only_its_own(kind: str) -> None:
    assert calling(kind)("ptrace") == ALLOWED
    assert calling(kind, alone=False)("ptrace") == errno.EPERM


def test_only_families_that_are_named_can_be_opened(kind: str) -> None:
    call = calling(kind)
    assert call(SOCKET, 2, 1) == call(SOCKET, 10, 2) == call(SOCKET, 2 | 1 << 32, 1) == ALLOWED
    for family in (AF_UNIX, 17, 38, 40, 0, 29, 31, 44):
        assert call(SOCKET, family, 1) == errno.EACCES
    assert call(SOCKET, AF_NETLINK, 3, 0) == ALLOWED
    assert {call(SOCKET, AF_NETLINK, 3, protocol) for protocol in (2, 4, 9, 12, 15, 16)} == {errno.EACCES}
    assert {calling(kind, ())(SOCKET, family, 1) for family in (1, 2, 10, 16)} == {errno.EACCES}


def test_pairs_of_unix_sockets_stay_pairs(kind: str) -> None:
    call, opened = calling(kind), calling(kind, (AF_UNIX,))
    assert call(PAIR, 1, 1) == call(PAIR, 1, 5 | 0o2004000) == ALLOWED
    assert call(PAIR, 1, 2) == call(PAIR, 1, 3) == errno.EACCES
    assert opened(PAIR, 1, 2) == opened(SOCKET, 1, 1) == ALLOWED


def test_calls_of_another_machine_are_none(kind: str) -> None:
    program = call_filter((), alone=True, kind=kind)
    assert {filtered(program, other, 1, ()) for other in (I386, ARM)} == {KILLED}
    if kind == "x86_64":
        assert filtered(program, X86_64, 0x40000000 + 1, ()) == errno.ENOSYS


def test_an_unknown_machine_has_no_filter() -> None:
    assert call_filter((), alone=True, kind="vax") == b""
