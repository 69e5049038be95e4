"""Names of files that hold secrets, or decide what runs later: one list for tools, the judgement of lines, sandboxes.

Kept by hand from the file signatures of gitrob (https://github.com/michenriksen/gitrob) and shhgit
(https://github.com/eth0izzle/shhgit), without names of ordinary source and settings, and from what the tools themselves
document. A backup, a swap file or a dated copy of such a file is one, too; its public part and its example are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath

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
"""What stands after the last dot."""
OF_DATA = r"\.(?:json|toml|ya?ml|ini|cfg|conf|properties|txt|csv|xml|plist)"
STAGES = r"(?:prod|production|stage|staging|dev|devel|development|local|test|testing|qa|uat|live|preprod|ci)"
ONE_WORD = r"(?:passwd|passwords?|\.?token|(?:access|auth)[_-]?token|(?:api|secret|private)[_-]?keys?)"
OF_CLOUDS = r"(?:service[._-]?account|firebase[._-]?adminsdk|client[._-]?secret)"
PATTERNS = re.compile(
    "|".join([
        r"\.env(?:rc|s|\d+|[._-].*)?",
        rf"env\.(?:{STAGES}|secrets?)(?:\.local)?",
        r"\.dev\.vars(?:\..*)?",
        r"(?:.*_)?id_(?:rsa|dsa|ecdsa|ed25519).*",
        r".+_(?:rsa|dsa|ecdsa|ed25519)",
        r"ssh_host_.*_key",
        r"\.credentials.*",
        rf"(?:.*[._-])?(?:secret|credential)s?(?:[._-]{STAGES})?{OF_DATA}",
        rf"(?:.+[._-])?{OF_CLOUDS}s?(?:[._-]?key)?(?:[._-].*)?\.json",
        rf"(?:{STAGES}[._-])?{ONE_WORD}(?:[._-]{STAGES})?{OF_DATA}",
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
"""What programs and people put after the name of a file that they keep a copy of."""

FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".gcloud", ".password-store", ".oci"})
TAILS = frozenset({
    (".docker", "config.json"), (".config", "gcloud"), (".config", "gh"), (".config", "glab-cli"), (".config", "hub"),
    (".config", "op"), (".config", "rclone"), (".config", "sops"), (".config", "doctl"), (".config", "hcloud"),
    (".config", "stripe"), (".cargo", "credentials.toml"), (".m2", "settings.xml"), (".m2", "settings-security.xml"),
    (".gradle", "gradle.properties"), ("run", "secrets"), (".circleci", "cli.yml"), (".idea", "webservers.xml"),
    (".idea", "datasources.local.xml"), (".vscode", "sftp.json"), (".bundle", "config"), (".snowsql", "config"),
})  # fmt: skip
"""A folder, and what in it holds secrets."""

CONTROL_FOLDERS = frozenset({".agents", ".git", ".vibe"})
"""Who writes here decides what runs later: hooks, tools, settings, skills."""


def is_sensitive(path: PurePath) -> bool:
    """Return whether a resolved path looks like it holds secrets, whatever the case of its letters."""
    parts = tuple(part.casefold() for part in path.parts)
    return bool(parts) and (names_secret(parts[-1]) or any(holds_secrets(*pair) for pair in pairwise(("", *parts))))


def holds_secrets(parent: str, name: str) -> bool:
    """Return whether all that is at a path holds secrets, by its casefolded name and that of the folder it lies in."""
    return name in FOLDERS or (parent, name) in TAILS


@lru_cache(maxsize=65_536)
def names_secret(name: str) -> bool:
    """Return whether a casefolded name is that of a file that holds secrets."""
    names = [*_originals(name)]
    is_public = any(one.endswith(".pub") or EXAMPLE.search(one) for one in names)
    return not is_public and any(map(_is_named, names))


def is_control(path: PurePath) -> bool:
    """Return whether what is written at a workspace-relative path decides what runs later."""
    parts = [part.casefold() for part in path.parts]
    return any(part in CONTROL_FOLDERS or part.endswith(".git") for part in parts)


def _is_named(name: str) -> bool:
    _, dot, ending = name.rpartition(".")
    return name in NAMES or bool(dot and ending in ENDINGS) or bool(PATTERNS.fullmatch(name))


def _originals(name: str) -> Iterator[str]:
    """Yield the name, and the names of which it may be that of a copy."""
    yield name
    shorter = COPY.sub("", name)
    while shorter != name:
        name = shorter
        yield name
        yield name.lstrip("#").removeprefix(".#")
        yield name.removeprefix(".")
        shorter = COPY.sub("", name)
