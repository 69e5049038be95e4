"""A separate program (``python -I -S``) that confines itself with Landlock and seccomp, then becomes the command.

Its first argument is a JSON object, and the others are the command. The object holds:

- ``hidden``: folders and files it may not read. It may read and run all others.
- ``shown``: folders inside hidden ones that it may read, except for hidden paths in them.
- ``read``: hidden paths that it may read after all.
- ``list``: folders that it may only list.
- ``write``: folders and files that it may change, except for hidden paths in them.
- ``network``: ``on`` if it may use the network.
- ``loopback``: true if it can have a network of its own.
- ``calls``: the filters of system calls in hexadecimal, ``opened`` for use with a network and ``closed`` without.
- ``records``: for the process that watches over it.

It imports nothing of ours, because it runs without our packages. The paths beside the hidden ones are looked up here,
because they may be too many for an argument.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from collections.abc import Iterator

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
SECCOMP_MODE_FILTER = 2
INSTRUCTION_BYTES = 8
"""Size in bytes of one instruction of a filter."""
AF_INET, SOCK_DGRAM = 2, 2
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
ALL_V1 = (1 << 13) - 1
READING = EXECUTE | READ_FILE | READ_DIR
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
DEVICES = ("null", "zero", "full", "random", "urandom")
"""Devices a command may use. Terminals aren't among them, because the user's would be included."""
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Return the version of the kernel's Landlock ABI, or 0 if there is none."""
    version = int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    return max(version, 0)


def enter_own_network() -> bool:
    """Give this process a network of its own, with only the loopback interface up. Return whether that worked."""
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(CLONE_NEWNET) != 0:
        if _libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            return False
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    device = int(_libc.socket(AF_INET, SOCK_DGRAM, 0))
    if device < 0:
        return False
    buffer = ctypes.create_string_buffer(struct.pack("16sh14s", b"lo", IFF_UP, b""), 40)
    is_up = _libc.ioctl(device, SIOCSIFFLAGS, buffer) == 0
    os.close(device)
    return bool(is_up)


def readable(hidden: list[str]) -> Iterator[str]:
    """Yield everything except ``hidden``: the entries beside the folders on the way to each hidden path."""
    yield from _entries_beside("/", frozenset(hidden), _folders_above(hidden))


def changeable(folders: list[str], hidden: list[str]) -> Iterator[str]:
    """Yield ``folders``, replacing those that contain hidden paths by the entries beside the way to these.

    Landlock's rights apply to everything below a folder, so a folder with hidden paths can't be allowed as a whole.
    """
    above = _folders_above(hidden)
    for path in folders:
        if path in above:
            yield from _entries_beside(path, frozenset(hidden), above)
        elif path not in hidden:
            yield path


def restrict_files(policy: dict[str, list[str]]) -> None:
    """Allow access to the paths the policy names, and to nothing else."""
    version = landlock_version()
    handled = ALL_V1 | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    handled |= IOCTL_DEV if version >= 5 else 0
    scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if version >= 6 else 0
    attributes = struct.pack("QQQ", handled, 0, scoped)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _checked(_libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock_create_ruleset")
    for name, rights in (("list", READ_DIR), ("read", READING), ("write", handled & ~IOCTL_DEV)):
        for path in policy[name]:
            _allow(ruleset, path, rights & handled)
    for name in DEVICES:
        _allow(ruleset, f"/dev/{name}", (READING | WRITE_FILE | IOCTL_DEV | TRUNCATE) & handled)
    _allow(ruleset, os.path.realpath("/dev/shm"), handled & ~IOCTL_DEV)  # noqa: S108  test runners need shared memory
    _checked(_libc.syscall(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def restrict_calls(program: bytes) -> None:
    """Make the kernel filter all further system calls with ``program``."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // INSTRUCTION_BYTES, ctypes.addressof(buffer))
    _checked(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header, 16), 0, 0), "seccomp")


def drop_capabilities() -> None:
    """Drop all capabilities, so that root has no power beyond its own files."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = struct.pack("Ii", 0x20080522, 0)
    _libc.capset(header, bytes(24))


def main(arguments: list[str]) -> int:
    """Confine this process and become the command. Return 126 if it can't be confined.

    Raises:
        OSError: the command can't be executed.
    """
    policy = json.loads(arguments[0])
    try:
        seen = [*readable(["/dev", *policy["hidden"]]), *changeable(policy["shown"], policy["hidden"])]
        policy["read"] = [*seen, *policy["read"]]
        policy["write"] = [*changeable(policy["write"], policy["hidden"])]
        has_network = policy["network"] == "on" or (policy["loopback"] and enter_own_network())
        calls = policy["calls"]["opened" if has_network else "closed"]
        _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        restrict_files(policy)
        drop_capabilities()
        restrict_calls(bytes.fromhex(calls))
    except OSError as error:
        sys.stderr.write(f"vibe: the sandbox could not be set up: {error}\n")
        return 126
    return os.execvp(arguments[1], arguments[1:])  # noqa: S606  becoming the command is the point


def _folders_above(paths: list[str]) -> set[str]:
    """Return all folders above ``paths``."""
    above: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)  # noqa: PTH120  nothing but os is loaded here
        while folder not in above:
            above.add(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120  as above
    return above


def _entries_beside(folder: str, hidden: frozenset[str], above: set[str]) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.path in hidden or entry.is_symlink():
            continue
        if entry.path in above:
            yield from _entries_beside(entry.path, hidden, above)
        else:
            yield entry.path


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)  # a command may be making links
    except OSError:
        return
    try:
        rights &= -1 if os.path.isdir(path) else FILE_RIGHTS
        attributes = struct.pack("=Qi", rights, descriptor)
        _checked(_libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, attributes, 0), f"landlock rule for {path}")
    finally:
        os.close(descriptor)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123  as above
        file.write(text)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
