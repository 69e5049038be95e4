"""Compiles the filter of system calls for confined programs, in the kernel's format. All sandboxes use it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from functools import cache

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETWORK_FAMILIES = (AF_INET, AF_INET6, AF_NETLINK)
NETLINK_ROUTE = 0
STREAM, SEQPACKET, KIND_OF_SOCKET = 1, 5, 0xF
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into the terminal. Text typed there would run outside the sandbox."""
NEW_NAMESPACES = 0x7E020000
NEW_TIME_NAMESPACE = 0x80
X32_NUMBERS = 0x40000000
"""The number from which x86_64 has a second set of numbers for the same calls."""

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""For each machine, the kernel's identifier and the column of its numbers in the tables of calls."""
CALLS = {"socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29), "clone": (56, 220), "unshare": (272, 97)}
ABSENT = ((435, 435), (425, 425), (426, 426), (427, 427))
"""clone3, whose flags a filter can't see (programs use clone instead), and io_uring, whose calls it never sees."""
REFUSED = {
    "keys": ((248, 217), (249, 218), (250, 219)),  # the user's keyring, which namespaces don't separate
    "mounts": ((165, 40), (166, 39), (155, 41), (161, 51), (428, 428), (429, 429), (430, 430), (431, 431), (432, 432),
               (433, 433), (442, 442), (467, 467)),
    "setns": ((308, 268),),
    "files by handle": ((304, 265),),
    "faults, programs and counters of the kernel": ((323, 282), (321, 280), (298, 241)),
    "the kernel itself": ((246, 104), (320, 294), (175, 105), (313, 273), (176, 106), (169, 142), (103, 116)),
    "the machine": ((167, 224), (168, 225), (163, 89), (164, 170), (227, 112), (305, 266), (179, 60), (443, 443),
                    (170, 161), (171, 162), (153, 58), (300, 262), (212, 18)),
    "ports of x86_64": ((172, None), (173, None)),
}  # fmt: skip
INSPECTING_OTHERS = ((101, 117), (310, 270), (311, 271), (438, 438), (440, 440))
"""ptrace and related calls. They are refused only where a program can see the processes of others, since debuggers need
them for their own.
"""

LD_WORD, JUMP_EQUAL, JUMP_FROM, JUMP_SET, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, MACHINE, ARGUMENTS = 0, 4, (16, 24, 32)


@cache
def call_filter(families: tuple[int, ...], *, alone: bool, kind: str = os.uname().machine) -> bytes:
    """Compile a filter that lets programs open sockets of ``families`` only, or return b"" for an unknown machine.

    ``alone`` says that programs see only their own processes. Of netlink, only the part about addresses and routes is
    open, which ``getifaddrs`` uses (node fails without it). Pairs of Unix sockets are always allowed. Without that
    family, only kinds that stay a pair are, because the others can send to any address. Programs for another machine,
    such as i386, are killed, because their calls have other numbers.
    """
    found = MACHINES.get(kind)
    if found is None:
        return b""
    machine, column = found
    number = {name: numbers[column] for name, numbers in CALLS.items()}
    code = [(LD_WORD, 0, 0, MACHINE), (JUMP_EQUAL, 1, 0, machine), (RETURN, 0, 0, KILL), (LD_WORD, 0, 0, NUMBER)]
    code += [(JUMP_FROM, 0, 1, X32_NUMBERS), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    code += _returning(_numbers(ABSENT, column), REFUSE | errno.ENOSYS)
    refused = [*(pair for pairs in REFUSED.values() for pair in pairs), *(() if alone else INSPECTING_OTHERS)]
    code += _returning(_numbers(refused, column), REFUSE | errno.EPERM)
    for name, flags in (("clone", NEW_NAMESPACES), ("unshare", NEW_NAMESPACES | NEW_TIME_NAMESPACE)):
        code += [(JUMP_EQUAL, 0, 4, number[name]), (LD_WORD, 0, 0, ARGUMENTS[0]), (JUMP_SET, 0, 1, flags)]
        code += [(RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    typing = _returning(TERMINAL_INPUT, REFUSE | errno.EPERM)
    code += [(JUMP_EQUAL, 0, len(typing) + 2, number["ioctl"]), (LD_WORD, 0, 0, ARGUMENTS[1]), *typing]
    code += [(RETURN, 0, 0, ALLOW)]
    if AF_UNIX not in families:
        code += [(JUMP_EQUAL, 0, 6, number["socketpair"]), (LD_WORD, 0, 0, ARGUMENTS[1]), (AND, 0, 0, KIND_OF_SOCKET)]
        code += [(JUMP_EQUAL, 1, 0, STREAM), (JUMP_EQUAL, 0, 1, SEQPACKET), (RETURN, 0, 0, ALLOW)]
        code += [(RETURN, 0, 0, REFUSE | errno.EACCES)]
    code += [(JUMP_EQUAL, 1, 0, number["socket"]), (RETURN, 0, 0, ALLOW), (LD_WORD, 0, 0, ARGUMENTS[0])]
    code += _returning([family for family in families if family != AF_NETLINK], ALLOW)
    if AF_NETLINK in families:
        code += [(JUMP_EQUAL, 0, 3, AF_NETLINK), (LD_WORD, 0, 0, ARGUMENTS[2]), (JUMP_EQUAL, 0, 1, NETLINK_ROUTE)]
        code += [(RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, REFUSE | errno.EACCES))
    return b"".join(struct.pack("HBBI", *line) for line in code)


def _numbers(pairs: Iterable[tuple[int, int | None]], column: int) -> list[int]:
    return [number for pair in pairs if (number := pair[column]) is not None]


def _returning(values: Iterable[int], what: int) -> list[tuple[int, int, int, int]]:
    """Return instructions that return ``what`` if the number just loaded is one of ``values``."""
    return [line for value in values for line in ((JUMP_EQUAL, 0, 1, value), (RETURN, 0, 0, what))]
