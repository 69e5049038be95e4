"""The filter of system calls that every confined program gets, whatever confines it, as the kernel takes it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from functools import cache

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
OF_NETWORKS = (AF_INET, AF_INET6, AF_NETLINK)
NETLINK_ROUTE = 0
STREAM, SEQPACKET, KIND_OF_SOCKET = 1, 5, 0xF
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into the terminal, and what is typed there runs outside."""
NEW_NAMESPACES = 0x7E020000
NEW_TIME_NAMESPACE = 0x80
OTHER_NUMBERS = 0x40000000
"""From here on x86_64 has a second set of numbers, for the same calls."""

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""The kernel's word for a machine, and which of two numbers its calls have."""
CALLS = {"socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29), "clone": (56, 220), "unshare": (272, 97)}
ABSENT = ((435, 435), (425, 425), (426, 426), (427, 427))
"""clone3, whose flags a filter can't see (programs turn to clone then), and io_uring, whose calls it never sees."""
REFUSED = {
    "keys": ((248, 217), (249, 218), (250, 219)),  # of the user's keyring, which no namespace divides
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
INTO_OTHERS = ((101, 117), (310, 270), (311, 271), (438, 438), (440, 440))
"""ptrace and its kin: only where the processes of others can be seen, for a debugger needs them for its own."""

LD_WORD, JUMP_EQUAL, JUMP_FROM, JUMP_SET, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, MACHINE, ARGUMENTS = 0, 4, (16, 24, 32)


@cache
def call_filter(families: tuple[int, ...], *, alone: bool, kind: str = os.uname().machine) -> bytes:
    """Compile a filter that lets programs open sockets of ``families`` and no others; empty: not for such a machine.

    ``alone``: they see no processes but their own. Of netlink only the part is open that tells of addresses and routes,
    which ``getifaddrs`` asks (node fails without). Pairs of Unix sockets are always allowed, but without that family
    only those that stay a pair: others can send to whom they name. Programs for another machine, such as i386, are
    killed: their calls have other numbers.
    """
    found = MACHINES.get(kind)
    if found is None:
        return b""
    machine, column = found
    number = {name: numbers[column] for name, numbers in CALLS.items()}
    code = [(LD_WORD, 0, 0, MACHINE), (JUMP_EQUAL, 1, 0, machine), (RETURN, 0, 0, KILL), (LD_WORD, 0, 0, NUMBER)]
    code += [(JUMP_FROM, 0, 1, OTHER_NUMBERS), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    code += _returning(_numbers(ABSENT, column), REFUSE | errno.ENOSYS)
    refused = [*(pair for pairs in REFUSED.values() for pair in pairs), *(() if alone else INTO_OTHERS)]
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
    code += _returning([one for one in families if one != AF_NETLINK], ALLOW)
    if AF_NETLINK in families:
        code += [(JUMP_EQUAL, 0, 3, AF_NETLINK), (LD_WORD, 0, 0, ARGUMENTS[2]), (JUMP_EQUAL, 0, 1, NETLINK_ROUTE)]
        code += [(RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, REFUSE | errno.EACCES))
    return b"".join(struct.pack("HBBI", *line) for line in code)


def _numbers(pairs: Iterable[tuple[int, int | None]], column: int) -> list[int]:
    return [one for pair in pairs if (one := pair[column]) is not None]


def _returning(values: Iterable[int], what: int) -> list[tuple[int, int, int, int]]:
    """Lines that return ``what`` where the number just loaded is one of ``values``."""
    return [line for value in values for line in ((JUMP_EQUAL, 0, 1, value), (RETURN, 0, 0, what))]
