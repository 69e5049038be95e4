"""Secrets hidden from confined programs: the user's keys and credentials, as files, sockets and variables."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from urllib.parse import unquote

IN_HOME = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".gcloud", ".config/gcloud", ".config/gh", ".config/hub", ".config/op",
    ".config/rclone", ".config/sops", ".docker/config.json", ".docker/run", ".netrc", "_netrc", ".git-credentials",
    ".config/git/credentials", ".cache/git", ".git-credential-cache", ".pgpass", ".my.cnf", ".pypirc", ".npmrc",
    ".yarnrc.yml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
    ".m2/settings-security.xml", ".gradle/gradle.properties", ".terraform.d/credentials.tfrc.json", ".terraformrc",
    ".vault-token", ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome",
    ".config/chromium", ".thunderbird", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history",
    ".psql_history", ".env", ".huggingface", ".cache/huggingface/token", ".colima", ".lima", ".rd", ".orbstack",
    ".minikube", ".1password", ".config/1Password", ".config/Bitwarden", ".config/keybase",
    ".bitwarden-ssh-agent.sock", ".local/share/containers/podman", ".local/share/docker", ".cache/keyring",
    ".config/fly", ".fly", ".heroku", ".s3cfg", ".boto", ".oci", ".config/doctl", ".claude", ".codex",
    ".config/anthropic",
)  # fmt: skip
"""Below the user's home."""

AGENT_SOCKETS = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONTEXT",
                 "XAUTHORITY", "DISPLAY", "WAYLAND_DISPLAY", "KUBECONFIG", "GNOME_KEYRING_CONTROL", "SSH_ASKPASS",
                 "GIT_ASKPASS", "CDPATH", "VSCODE_GIT_IPC_HANDLE", "XDG_RUNTIME_DIR")  # fmt: skip
"""Variables that lead to a program which acts for the user."""

SOCKETS_NAMED = {
    "SSH_AUTH_SOCK": r"^/.+$",
    "DBUS_SESSION_BUS_ADDRESS": r"unix:path=([^,;]+)",
    "TMUX": r"^(/[^,]+),",
    "DOCKER_HOST": r"^unix://(/.+)$",
    "VSCODE_GIT_IPC_HANDLE": r"^/.+$",
    "GPG_AGENT_INFO": r"^(/[^:]+)",
}
"""The variables that name a socket, and how: the keyring is asked by the session bus, tmux types keys for anyone."""
X_SOCKETS = "/tmp/.X11-unix/X"  # noqa: S108  where it is on every system
PRIVATE_TEMP = "/tmp"  # noqa: S108  of what only reads, in memory
SETTINGS_OF_THE_SYSTEM = Path("/etc")
SOCKETS = Path("/proc/net/unix")
MOST_ENTRIES = 100_000
"""The most entries that are looked through for secrets."""
MOST_SECRETS = 2_000
"""The most secrets that can be hidden one by one."""

EMPTY = ".empty"
"""A file in ``temp`` that stands where a file is hidden: programs take an empty file better than an unreadable one."""


def prepare_temp(temp: Path) -> None:
    """Make the folder for a confined program's temporary files."""
    (temp / "cache").mkdir(parents=True, exist_ok=True)
    (temp / EMPTY).touch(mode=0o444)


def hidden_paths(environ: Mapping[str, str], also: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The existing files and folders that hold secrets, resolved, and ``also``. Reads the file system."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111  without HOME, the user's entry
    candidates = [*(home / name for name in IN_HOME), *also]
    for variable in (
        "AWS_SHARED_CREDENTIALS_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NETRC",
        "PGPASSFILE",
        "NPM_CONFIG_USERCONFIG",
    ):
        if environ.get(variable):
            candidates.append(Path(environ[variable]))
    candidates += _named_sockets(environ)
    found = {Path(os.path.realpath(path)) for path in candidates if path.is_absolute() and path.exists()}
    return tuple(sorted(path for path in found if not any(parent in found for parent in path.parents)))


def _named_sockets(environ: Mapping[str, str]) -> Iterator[Path]:
    """The sockets, named by variables, of programs that act for the user: a workspace below /tmp has them beside it."""
    for variable, pattern in SOCKETS_NAMED.items():
        for found in re.findall(pattern, environ.get(variable, "")):
            yield Path(unquote(found))
    if display := re.match(r":(\d+)", environ.get("DISPLAY", "")):
        yield Path(f"{X_SOCKETS}{display[1]}")


def sockets_of_others(listed: Path = SOCKETS) -> Iterator[Path]:
    """The Unix sockets that processes outside listen at, agents and daemons among them. Reads the file system."""
    try:
        lines = listed.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split(None, 7)
        if len(fields) > 7 and fields[7].startswith("/") and os.path.exists(fields[7]):  # noqa: PTH110
            yield Path(os.path.realpath(fields[7]))


def not_for_everybody(folder: Path = SETTINGS_OF_THE_SYSTEM) -> tuple[Path, ...]:
    """The files and folders below ``folder`` that not everybody may read, such as ``/etc/shadow``.

    Reads the file system.
    """
    return tuple(_matching(folder, lambda entry: not _is_public(entry)) or ())


def secrets_below(folders: Iterable[Path], is_secret: Callable[[PurePath], bool]) -> tuple[Path, ...] | None:
    """Return what ``is_secret`` below ``folders``, links resolved; None: too much is there to look through.

    Reads the file system.
    """
    found: list[Path] = []
    for folder in folders:
        below = _matching(folder, lambda entry: is_secret(PurePath(entry.path)))
        if below is None:
            return None
        found += below
    if len(found) > MOST_SECRETS:
        return None
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in found))


def _matching(folder: Path, matches: Callable[[os.DirEntry[str]], bool]) -> list[Path] | None:
    """Return what matches, without what lies below it; None: too much to look through."""
    found: list[Path] = []
    folders, seen = [str(folder)], 0
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        seen += len(entries)
        if seen > MOST_ENTRIES:
            return None
        for entry in entries:
            if matches(entry):
                found.append(Path(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return found


def _is_public(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() or bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH)
    except OSError:
        return False


def reading_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` of what only reads: without what leads to agents of the user, and with a home that is empty."""
    kept = {name: value for name, value in environ.items() if name not in AGENT_SOCKETS}
    return kept | {"HOME": PRIVATE_TEMP, "TMPDIR": PRIVATE_TEMP, "XDG_CACHE_HOME": PRIVATE_TEMP}


def confined_environ(environ: Mapping[str, str], temp: Path) -> dict[str, str]:
    """``environ`` without what leads to agents of the user, with temporary files and caches below ``temp``."""
    kept = {name: value for name, value in environ.items() if name not in AGENT_SOCKETS}
    cache = str(temp / "cache")
    return kept | {
        "TMPDIR": str(temp),
        "XDG_CACHE_HOME": cache,
        "UV_CACHE_DIR": f"{cache}/uv",
        "PIP_CACHE_DIR": f"{cache}/pip",
        "npm_config_cache": f"{cache}/npm",
        "GOCACHE": f"{cache}/go-build",
    }
