"""Recognises that a sandbox may have refused something, and names the setting that would allow it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from vibe.shell.sandbox.settings import Network


def _pattern(phrases: str, codes: str) -> re.Pattern[str]:
    """Compile phrases, ignoring case, and error codes as whole words, so ``ModuleNotFoundError`` doesn't match one."""
    return re.compile(rf"(?i:{phrases})|\b(?:{codes})\b")


READ_ONLY = _pattern(r"read-only file ?system|invalid cross-device link|device or resource busy", "EROFS|EXDEV|EBUSY")
NOT_PERMITTED = _pattern("permission denied|operation not permitted", "EACCES|EPERM")
REFUSED = _pattern("connection refused", "ECONNREFUSED")
"""Not a sign of the sandbox by itself, but the server of another command can't be reached."""
UNREACHABLE = _pattern(
    r"network is unreachable|could not resolve|failed to resolve|name resolution|name or service not known|"
    r"failed to lookup address|no route to host|nodename nor servname|dns error|no address associated",
    "ENETUNREACH|EAI_AGAIN|ENOTFOUND|getaddrinfo|NameResolutionError|NewConnectionError",
)
GAVE_UP = re.compile(
    r"bwrap: Can't [^\n]*: (?:No such file or directory|Invalid argument|Unable to find \"[^\"\n]*\" in mount table)\s*"
)
"""The messages of ``bwrap`` when a file vanishes before it is mounted, before the mount is looked for, or before its
flags are set.
"""
FILES = (
    "only the workspace (but for .vibe, .agents, AGENTS.md, CLAUDE.md, git's own settings and hooks, and moving what "
    "leads to these) and temporary files can be written; a folder in [sandbox] writable of config.toml could be, too"
)
OWN_LOCALHOST = (
    "each command has a localhost of its own, so start a server in the command that talks to it; "
    '[sandbox] network = "on" in config.toml would share it'
)
SECRETS = "keys and credentials can't be read; a file named in [sandbox] readable of config.toml could be"
SOCKETS = "Unix sockets are closed; [sandbox] unix_sockets = true in config.toml would let commands use them"
NETWORK = 'only localhost can be reached; [sandbox] network = "on" in config.toml would open the network'


def is_unbegun(options: Sequence[str], exit_code: int, output: str) -> bool:
    """Return whether ``bwrap`` failed before it began a command, because a file of a git worktree vanished meanwhile.

    ``options`` are those given to it, and ``output`` is what it printed. Files that may vanish use ``-try`` options,
    but they can still vanish after ``bwrap`` has looked for them. When it is started again, they are left out.
    """
    if exit_code != 1 or not GAVE_UP.fullmatch(output):
        return False
    tried = (path for option, path in pairwise(options) if option.endswith("bind-try"))
    return any(f"/newroot{path}" in output or f"/oldroot{path}" in output for path in tried)


def owner_advice(owner: int) -> str:
    """Return the advice for root in a workspace of another user, whose files it can't write in the sandbox."""
    return (
        f"the workspace belongs to user {owner}, and in the sandbox not even root can write another user's files; "
        f"run vibe as that user (with `setpriv --reuid={owner} --regid={owner} --clear-groups`, or `--user {owner}` "
        "of a container)"
    )


def refusal_note(output: str, exit_code: int, name: str, network: Network, owner: int | None = None) -> str:
    """Return a note about a command that the sandbox ``name`` confined, or "" if nothing suggests a refusal.

    ``owner`` is the owner of the workspace's files, if that is another user than the one who runs the command.
    """
    reasons: list[str] = []
    if READ_ONLY.search(output):
        reasons.append(FILES)
    elif exit_code and NOT_PERMITTED.search(output) and owner is not None:
        reasons += [owner_advice(owner), SECRETS]
    elif exit_code and NOT_PERMITTED.search(output):
        reasons += [FILES, SECRETS]
    if exit_code and "socket" in output.casefold() and NOT_PERMITTED.search(output) and name.startswith("bubblewrap"):
        reasons.append(SOCKETS)
    if network is not Network.ON and UNREACHABLE.search(output):
        reasons.append(NETWORK)
    elif network is not Network.ON and exit_code and REFUSED.search(output):
        reasons.append(OWN_LOCALHOST)
    if not reasons:
        return ""
    return f"[the sandbox ({name}) may have refused something: {'; '.join(reasons)}. Only the user can change that.]"


def lacking(stdout: str, stderr: str, exit_code: int) -> str:
    """Return, as a phrase, what a command lacked in a read-only sandbox, or "" if nothing suggests that."""
    output = f"{stdout}\n{stderr}" if exit_code else stderr
    if READ_ONLY.search(output):
        return "it could not write"
    if UNREACHABLE.search(output) or (exit_code and REFUSED.search(output)):
        return "it could not reach the network"
    if exit_code in {126, 127}:
        return "a program was missing"
    return ""
