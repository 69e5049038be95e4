"""Recognises secrets by the names of files, and finds the files, sockets and variables to hide from confined programs.

Tools, the policy and sandboxes share one list of names. It is maintained by hand. Its sources are the file signatures
of gitrob (https://github.com/michenriksen/gitrob) and shhgit (https://github.com/eth0izzle/shhgit), without the names
of ordinary sources and settings, and the documentation of the tools themselves. A backup, a swap file or a dated copy
of a secret file is secret too. Its public part and its example are not.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path, PurePath

from msgspec import Struct, field

from vibe.shell.sandbox.control import FILES
from vibe.system.files import entries_of, text_of
from vibe.system.own_places import user_home_of

NAMES = frozenset({
    "credentials", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "htpasswd",
    ".htdigest", ".dockercfg", ".dockerconfigjson", ".terraformrc", "terraform.rc", "credentials.tfrc.json",
    "kubeconfig", "admin.conf", "kubelet.conf", "k3s.yaml", ".vault-token", "wp-config.php", "localsettings.php",
    "auth.json", "acme.json", "local.settings.json", "rclone.conf", ".s3cfg", "s3cfg", ".boto", ".my.cnf",
    ".mylogin.cnf", ".yarnrc.yml", ".sentryclirc", ".tugboat", ".databrickscfg", "kaggle.json", ".rediscli_auth",
    ".msmtprc", ".fetchmailrc", ".mbsyncrc", ".passwd-s3fs", "passwd-s3fs", ".ftpconfig", ".remote-sync.json",
    "sftp-config.json", "filezilla.xml", "recentservers.xml", "sitemanager.xml", "robomongo.json", "proftpdpasswd",
    "ventrilo_srv.ini", "otr.private_key", "secret_token.rb", "hudson.util.secret", "cookies.txt", "cookies.sqlite",
    ".cookies", "cookiejar.txt", "logins.json", "key3.db", "key4.db", "signons.sqlite", "wallet.dat", "ipsec.secrets",
    "chap-secrets", "pap-secrets", "krb5.keytab", "vault.pass", "application_default_credentials.json", ".api_key",
    ".apikey", ".passwd", ".password", ".secret", ".secrets", ".token", "keystore", "keytab",
})  # fmt: skip
ENDINGS = frozenset({
    "env", "pem", "key", "p12", "pkcs12", "pfx", "pk8", "pvk", "jks", "jceks", "bks", "keystore", "kdb", "kdbx",
    "psafe3", "agilekeychain", "opvault", "keychain", "keychain-db", "kwallet", "ppk", "p8", "ovpn", "tblk", "bek",
    "tpm", "fve", "tfstate", "tfvars", "kubeconfig", "keytab", "publishsettings", "cscfg",
})  # fmt: skip
"""Endings of the names of secret files, after the last dot."""
DATA_ENDING = r"\.(?:json|toml|ya?ml|ini|cfg|conf|properties|txt|csv|xml|plist)"
STAGES = r"(?:prod|production|stage|staging|dev|devel|development|local|test|testing|qa|uat|live|preprod|ci)"
ONE_WORD = r"(?:passwd|passwords?|\.?token|(?:access|auth)[_-]?token|(?:api|secret|private)[_-]?keys?)"
CLOUD_KEY = r"(?:service[._-]?account|firebase[._-]?adminsdk|client[._-]?secret)"
PATTERNS = re.compile(
    "|".join([
        r"\.env(?:rc|s|\d+|[._-].*)?",
        rf"env\.(?:{STAGES}|secrets?)(?:\.local)?",
        r"\.dev\.vars(?:\..*)?",
        r"(?:.*_)?id_(?:rsa|dsa|ecdsa|ed25519).*",
        r".+_(?:rsa|dsa|ecdsa|ed25519)",
        r"ssh_host_.*_key",
        r"\.credentials.*",
        rf"(?:.*[._-])?(?:secret|credential)s?(?:[._-]{STAGES})?{DATA_ENDING}",
        rf"(?:.+[._-])?{CLOUD_KEY}s?(?:[._-]?key)?(?:[._-].*)?\.json",
        rf"(?:{STAGES}[._-])?{ONE_WORD}(?:[._-]{STAGES})?{DATA_ENDING}",
        r".*\.tfstate\..*",
        r".*\.tfvars\.json",
        r"kubeconfig\.(?:ya?ml|json|conf|txt)",
        r"\.?vault[_-]?pass.*",
        r"\.ansible[_-]?vault.*",
        r"\..*_history",
        r"secring\..*",
        r"krb5cc_.*",
        r"\.smbcredentials.*",
        r"wg\d+\.conf",
        r"utc--\d{4}-.*",
    ])
)  # fmt: skip
EXAMPLE = re.compile(r"[._-](?:example|sample|template|tmpl|dist)(?:\.[a-z]+)?$")
COPY = re.compile(
    r"(?:~|#|[._-](?:bak|back|backup|bkp|old|orig|save|saved|copy|tmp|temp|prev|rej|sw[a-z]|un~|dpkg-old|dpkg-dist"
    r"|rpmsave|rpmorig|gz|bz2|xz|zst|zip|\d+|\d{4}-\d\d-\d\d(?:[t_-][\d:-]+z?)?)| \(?(?:copy|\d+)\)?)$"
)
"""Endings that programs and people add to the name of a file to make a copy."""

FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".gcloud", ".password-store", ".oci"})
TAILS = frozenset({
    (".docker", "config.json"), (".config", "gcloud"), (".config", "gh"), (".config", "glab-cli"), (".config", "hub"),
    (".config", "op"), (".config", "rclone"), (".config", "sops"), (".config", "doctl"), (".config", "hcloud"),
    (".config", "stripe"), (".cargo", "credentials.toml"), (".m2", "settings.xml"), (".m2", "settings-security.xml"),
    (".gradle", "gradle.properties"), ("run", "secrets"), (".circleci", "cli.yml"), (".idea", "webservers.xml"),
    (".idea", "datasources.local.xml"), (".vscode", "sftp.json"), (".bundle", "config"), (".snowsql", "config"),
})  # fmt: skip
"""Folders, each with the name of an entry that holds secrets."""

CONTROL_FOLDERS = frozenset({".agents", ".git", ".vibe"})
"""Folders whose contents decide what runs later: hooks, tools, settings and skills."""
CONTROL_FILES = frozenset(map(str.casefold, FILES))


def is_sensitive(path: PurePath) -> bool:
    """Return whether a resolved path looks like it holds secrets, whatever the case of its letters."""
    parts = tuple(part.casefold() for part in path.parts)
    return bool(parts) and (names_secret(parts[-1]) or any(holds_secrets(*pair) for pair in pairwise(("", *parts))))


def holds_secrets(parent: str, name: str) -> bool:
    """Return whether everything at a path is secret, by its casefolded name and that of its parent folder."""
    return name in FOLDERS or (parent, name) in TAILS


@lru_cache(maxsize=65_536)
def names_secret(name: str) -> bool:
    """Return whether a casefolded name is that of a file with secrets."""
    names = [*_originals(name)]
    is_public = any(original.endswith(".pub") or EXAMPLE.search(original) for original in names)
    return not is_public and any(map(_has_secret_name, names))


def is_control(path: PurePath) -> bool:
    """Return whether writing to a path relative to the workspace decides what runs later."""
    parts = [part.casefold() for part in path.parts]
    return "/".join(parts) in CONTROL_FILES or any(part in CONTROL_FOLDERS or part.endswith(".git") for part in parts)


def _has_secret_name(name: str) -> bool:
    _, dot, ending = name.rpartition(".")
    return name in NAMES or bool(dot and ending in ENDINGS) or bool(PATTERNS.fullmatch(name))


def _originals(name: str) -> Iterator[str]:
    """Yield the name, and the possible names of the original if it is the name of a copy."""
    yield name
    shorter = COPY.sub("", name)
    while shorter != name:
        name = shorter
        yield name
        yield name.lstrip("#").removeprefix(".#")
        yield name.removeprefix(".")
        shorter = COPY.sub("", name)


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
"""Paths with secrets below the user's home."""

AGENT_SOCKETS = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONTEXT",
                 "XAUTHORITY", "DISPLAY", "WAYLAND_DISPLAY", "KUBECONFIG", "GNOME_KEYRING_CONTROL", "SSH_ASKPASS",
                 "GIT_ASKPASS", "CDPATH", "VSCODE_GIT_IPC_HANDLE", "XDG_RUNTIME_DIR")  # fmt: skip
"""Variables that lead to programs which act for the user."""

FILE_VARIABLES = ("AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "NETRC", "PGPASSFILE",
                  "NPM_CONFIG_USERCONFIG")  # fmt: skip
"""Variables that name a file with secrets."""

PRIVATE_TEMP = "/tmp"  # noqa: S108  in memory, for commands in a read-only place
SYSTEM_FOLDERS = tuple(map(Path, ("/etc", "/opt", "/usr/local", "/nix", "/boot", "/var/lib", "/var/spool")))
"""System folders that may contain files not meant for everybody.

Other folders, such as ``/usr``, come from packages, except for what is mounted in them.
"""
PUBLIC = frozenset({"/nix/store", "/gnu/store"})
"""Folders in which everything is meant for everybody."""
VIRTUAL = ("/proc", "/sys", "/dev")
SOCKETS = Path("/proc/net/unix")
MOUNTS = Path("/proc/self/mountinfo")
MOST_ENTRIES = 1_000_000
"""Maximum number of entries searched for secrets if all must be found."""
FEW_ENTRIES = 20_000
"""Maximum number of entries searched if it is enough to find some secrets, the shallowest ones."""
MOST_SECRETS = 2_000
"""Maximum number of secrets that can be hidden one by one."""
SETTLED_NS = 2_000_000_000
"""A folder that changed less than these nanoseconds before it was searched may have changed again unnoticed."""
KEY_BYTES = 64 * 1024

EMPTY = ".empty"
"""An empty file shown in place of hidden files, since programs cope better with that than with an unreadable file."""


def hidden_paths(environ: Mapping[str, str], also: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the existing files and folders with secrets, and those in ``also``, resolved. Reads the file system."""
    home = user_home_of(environ)
    candidates = [*(home / name for name in IN_HOME), *also]
    for variable in FILE_VARIABLES:
        if environ.get(variable):
            candidates.append(Path(environ[variable]))
    if (runtime := environ.get("XDG_RUNTIME_DIR")) and not home.is_relative_to(runtime):
        candidates.append(Path(runtime))
    found = {Path(os.path.realpath(path)) for path in filter(os.path.exists, candidates) if path.is_absolute()}
    return tuple(sorted(path for path in found if not any(parent in found for parent in path.parents)))


def sockets_of_others() -> Iterator[Path]:
    """Yield the Unix sockets that processes outside listen at, such as agents and daemons. Reads the file system.

    Sockets of another network namespace, such as those of a container's host, appear only in the list of mounts.
    """
    paths = [fields[7] for line in text_of(SOCKETS).splitlines() if len(fields := line.split(None, 7)) > 7]
    for place in mount_points():
        if place != "/" and not place.startswith(VIRTUAL):
            paths += [place, *(entry.path for entry in entries_of(place))]
    for path in dict.fromkeys(paths):
        with suppress(OSError):
            if path.startswith("/") and Path(path).is_socket():
                yield Path(os.path.realpath(path))


def mount_points() -> list[str]:
    """Return the paths where something is mounted. Reads the file system."""
    lines = text_of(MOUNTS).splitlines()
    return [re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in lines]


def secrets_of_system(folders: Iterable[Path] = SYSTEM_FOLDERS, limit: int = FEW_ENTRIES) -> tuple[Path, ...] | None:
    """Return the secrets below ``folders``: paths this user may read that not everybody may read, or named as secrets.

    A public certificate isn't a secret by its name alone. With more than ``limit`` entries the result is None, or, if
    ``limit`` is ``FEW_ENTRIES``, what was found so far. Reads the file system.
    """
    found: list[Path] = []
    pending, seen = deque(str(folder) for folder in folders if not folder.is_symlink()), 0
    while pending:
        entries = entries_of(pending.popleft())
        seen += len(entries)
        if seen > limit:
            if limit != FEW_ENTRIES:
                return None
            break
        for entry in entries:
            if entry.is_symlink():
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if not _is_public(entry) or (not is_folder and _is_key(entry)):
                found.append(Path(entry.path))
            elif is_folder and entry.path not in PUBLIC:
                pending.append(entry.path)
    return tuple(path for path in found if _is_ours_to_read(path))


class _Folder(Struct, frozen=True):
    changed: int
    searched_at: int
    entries: int
    secrets: tuple[str, ...]
    folders: tuple[str, ...]


class SecretSearch(Struct, eq=False):
    """Searches folders for secrets by name. A folder that hasn't changed since is not searched again."""

    _known: dict[str, _Folder] = field(default_factory=dict[str, _Folder])

    def below(self, folders: Iterable[Path]) -> tuple[Path, ...] | None:
        """Return the secrets below ``folders``, with links resolved, or None if there is too much to search.

        Reads the file system.
        """
        found: list[str] = []
        pending, seen = [*map(str, folders)], 0
        while pending:
            folder = self._searched(pending.pop())
            seen += folder.entries
            found += folder.secrets
            pending += folder.folders
            if seen > MOST_ENTRIES or len(found) > MOST_SECRETS:
                return None
        return tuple(Path(path) for path in dict.fromkeys(map(os.path.realpath, found)))

    def _searched(self, path: str) -> _Folder:
        try:
            changed = Path(path).stat().st_mtime_ns
        except OSError:
            return _Folder(0, 0, 0, (), ())
        known = self._known.get(path)
        if known is None or known.changed != changed or known.searched_at - changed < SETTLED_NS:
            known = self._known[path] = _folder(path, changed)
        return known


def _folder(path: str, changed: int) -> _Folder:
    searched_at = time.time_ns()
    parent = os.path.basename(path).casefold()  # noqa: PTH119  for each folder of a workspace
    entries = entries_of(path)
    secrets: list[str] = []
    folders: list[str] = []
    for entry in entries:
        name = entry.name.casefold()
        if holds_secrets(parent, name) or names_secret(name):
            secrets.append(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
    return _Folder(changed, searched_at, len(entries), tuple(secrets), tuple(folders))


def _is_public(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH)
    return False


def _is_ours_to_read(path: Path) -> bool:
    """Return whether there is something that we may read without root's powers, which no confined program has."""
    try:
        found = path.stat()
        is_empty = not any(path.iterdir()) if stat.S_ISDIR(found.st_mode) else not found.st_size
    except OSError:
        return False
    if found.st_uid == os.geteuid():
        return bool(found.st_mode & stat.S_IRUSR) and not is_empty
    is_of_group = found.st_gid in {os.getegid(), *os.getgroups()}
    return bool(found.st_mode & (stat.S_IRGRP if is_of_group else stat.S_IROTH)) and not is_empty


def _is_key(entry: os.DirEntry[str]) -> bool:
    """Return whether a file that everybody may read is secret by its name, and isn't just a certificate."""
    name = entry.name.casefold()
    if not names_secret(name):
        return False
    if not name.endswith(".pem"):
        return True
    with suppress(OSError), Path(entry.path).open("rb") as file:
        return b"PRIVATE KEY" in file.read(KEY_BYTES)
    return True


def reading_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for commands in a read-only place: without the user's agents, and with an empty home."""
    kept = {name: value for name, value in environ.items() if name not in AGENT_SOCKETS}
    return kept | {"HOME": PRIVATE_TEMP, "TMPDIR": PRIVATE_TEMP, "XDG_CACHE_HOME": PRIVATE_TEMP}


def confined_environ(environ: Mapping[str, str], temp: Path) -> dict[str, str]:
    """Return ``environ`` without the user's agents, and with temporary files and caches below ``temp``."""
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
