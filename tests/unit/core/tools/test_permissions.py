"""Which rule wins when rules disagree: the whole table of decisions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath

import pytest
from msgspec.structs import replace

from vibe.core.tools.base import ToolPermission
from vibe.core.tools.permissions import ApprovalMode, CallFacts, Ruling, decide
from vibe.shell.sandbox.secrets import is_control, is_sensitive

ALWAYS, ASK, NEVER = ToolPermission.ALWAYS, ToolPermission.ASK, ToolPermission.NEVER
MODES = tuple(ApprovalMode)


def facts(tool: str = "bash", permission: ToolPermission = ASK) -> CallFacts:
    return CallFacts(tool=tool, permission=permission)


@dataclass(frozen=True)
class Case:
    name: str
    facts: CallFacts
    rulings: str
    rule: str
    """``rulings`` has one letter for each of the modes ask, edits and all: (a)llow, (q)uestion, (d)eny.

    ``rule`` is the one that decides in mode ask.
    """


SENSITIVE = (".env",)
OUTSIDE = ("/etc/hosts",)
CASES = (
    Case("plain ask", facts(), "qqa", "permission"),
    Case("plain always", facts(permission=ALWAYS), "aaa", "permission"),
    Case("plain never", facts(permission=NEVER), "ddd", "never"),
    Case("write inside", replace(facts("write_file"), edit=True), "qaa", "permission"),
    Case("an edit whatever its name", replace(facts("my_writer"), edit=True), "qaa", "permission"),
    Case("a name makes no edit", facts("write_file"), "qqa", "permission"),
    Case("write outside", replace(facts("write_file"), edit=True, outside=OUTSIDE), "qqq", "outside"),
    Case("write a secret", replace(facts("write_file"), edit=True, sensitive=SENSITIVE), "qqq", "sensitive"),
    Case("write a hook", replace(facts("write_file"), edit=True, control=(".git/hooks/x",)), "qqq", "control"),
    Case("edit never", facts("write_file", NEVER), "ddd", "never"),
    Case("edit always", facts("write_file", ALWAYS), "aaa", "permission"),
    Case("read a secret", replace(facts("read_file", ALWAYS), sensitive=SENSITIVE), "qqq", "sensitive"),
    Case("read outside", replace(facts("read_file", ALWAYS), outside=OUTSIDE), "qqq", "outside"),
    Case(
        "sensitive before outside",
        replace(facts("read_file", ALWAYS), sensitive=SENSITIVE, outside=OUTSIDE),
        "qqq",
        "sensitive",
    ),
    Case("always write of a hook", replace(facts("write_file", ALWAYS), control=(".vibe/x",)), "qqq", "control"),
    Case("denylist beats always", replace(facts(permission=ALWAYS), listed=NEVER), "ddd", "denylist"),
    Case("denylist beats never", replace(facts(permission=NEVER), listed=NEVER), "ddd", "denylist"),
    Case("denylist beats remembered", replace(facts(), listed=NEVER, remembered=True), "ddd", "denylist"),
    Case("never beats allowlist", replace(facts(permission=NEVER), listed=ALWAYS), "ddd", "never"),
    Case("never beats remembered", replace(facts(permission=NEVER), remembered=True), "ddd", "never"),
    Case("its own rules beat always", replace(facts(permission=ALWAYS), listed=ASK), "qqa", "permission"),
    Case(
        "remembered beats its own rules",
        replace(facts(permission=ALWAYS), listed=ASK, remembered=True),
        "aaa",
        "remembered",
    ),
    Case("never beats its own rules", replace(facts(permission=NEVER), listed=ASK), "ddd", "never"),
    Case("allowlist beats ask", replace(facts(), listed=ALWAYS), "aaa", "allowlist"),
    Case("allowlist beats sensitive", replace(facts(), listed=ALWAYS, sensitive=SENSITIVE), "aaa", "allowlist"),
    Case("allowlist beats outside", replace(facts(), listed=ALWAYS, outside=OUTSIDE), "aaa", "allowlist"),
    Case("remembered beats outside", replace(facts(), remembered=True, outside=OUTSIDE), "aaa", "remembered"),
    Case("remembered beats sensitive", replace(facts(), remembered=True, sensitive=SENSITIVE), "aaa", "remembered"),
    Case("hard beats allowlist", replace(facts(), hard_denial="no", listed=ALWAYS), "ddd", "hard"),
    Case("hard beats remembered", replace(facts(), hard_denial="no", remembered=True), "ddd", "hard"),
    Case("hard beats always", replace(facts(permission=ALWAYS), hard_denial="no"), "ddd", "hard"),
    Case("hard beats denylist", replace(facts(), hard_denial="no", listed=NEVER), "ddd", "hard"),
    Case("hard edit", replace(facts("write_file"), hard_denial="not claimed"), "ddd", "hard"),
)
LETTERS = {"a": Ruling.ALLOW, "q": Ruling.ASK, "d": Ruling.DENY}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_the_first_rule_that_speaks_decides(case: Case, mode: ApprovalMode) -> None:
    decision = decide(replace(case.facts, mode=mode))
    expected = LETTERS[case.rulings[MODES.index(mode)]]
    asked_first = LETTERS[case.rulings[0]] is Ruling.ASK
    assert decision.ruling is expected
    assert decision.rule == ("mode" if asked_first and expected is Ruling.ALLOW else case.rule)
    assert decision.reason


def test_a_tools_own_word_stands_in_the_reason() -> None:
    told = replace(facts(), detail="curl reaches the network")
    assert decide(told).reason == "bash needs your approval (curl reaches the network)"
    assert decide(replace(told, listed=NEVER)).reason.endswith("forbids this call (curl reaches the network)")


def everything() -> list[CallFacts]:
    return [
        CallFacts(
            tool=tool,
            permission=permission,
            hard_denial=hard,
            listed=listed,
            remembered=remembered,
            sensitive=sensitive,
            outside=outside,
        )
        for tool, permission, hard, listed, remembered, sensitive, outside in product(
            ("bash", "write_file"),
            ToolPermission,
            ("", "no"),
            (None, ALWAYS, NEVER),
            (False, True),
            ((), SENSITIVE),
            ((), OUTSIDE),
        )
    ]


def test_a_mode_never_moves_a_denial_and_never_adds_one() -> None:
    for case in everything():
        asked = decide(case).ruling
        for mode in (ApprovalMode.EDITS, ApprovalMode.ALL):
            widened = decide(replace(case, mode=mode)).ruling
            assert (widened is Ruling.DENY) is (asked is Ruling.DENY)
            assert widened is Ruling.ALLOW or widened is asked


def test_mode_all_asks_only_about_what_is_closed() -> None:
    for case in everything():
        decision = decide(replace(case, mode=ApprovalMode.ALL))
        assert decision.ruling is not Ruling.ASK or decision.rule in {"sensitive", "outside"}


def test_deny_rules_and_never_hold_whatever_else_is_said() -> None:
    for case in everything():
        if case.listed is NEVER or case.permission is NEVER or case.hard_denial:
            assert decide(replace(case, mode=ApprovalMode.ALL)).ruling is Ruling.DENY


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".ENV",
        "config/.env.local",
        ".env.production",
        "prod.env",
        ".envrc",
        "server.pem",
        "tls/Server.KEY",
        "id_rsa",
        "id_ed25519.bak",
        "store.p12",
        "app.jks",
        "passwords.kdbx",
        "credentials",
        "credentials.json",
        "gcp-credentials.json",
        "service-account-prod.json",
        "secrets.toml",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        "/home/u/.ssh/config",
        "/home/u/.aws/config",
        "/home/u/.gnupg/anything",
        "/home/u/.kube/config",
        "/home/u/.docker/config.json",
        "/home/u/.config/gh/hosts.yml",
        "infra/terraform.tfstate",
        "terraform.tfstate.backup",
        "prod.tfvars",
        "prod.auto.tfvars.json",
        "kubeconfig",
        "staging.kubeconfig",
        ".vault_pass",
        ".vault_pass.txt",
        "wp-config.php",
        "auth.json",
        "token.txt",
        "api_key.txt",
        "passwords.csv",
        "secret.yaml",
        "client_secret_123.json",
        ".bash_history",
        "AuthKey_ABC.p8",
        "home/.m2/settings.xml",
        "server.key (copy)",
        *[
            ".dev.vars",
            ".dev.vars.production",
            "serviceAccountKey.json",
            "service_account.json",
            "web.keytab",
            "krb5cc_1000",
        ],
        *[
            "server.key.bak",
            "server.key~",
            "#server.key#",
            ".#server.key",
            ".server.key.swp",
            ".env.swp",
            ".env.bak~",
            "id_rsa.old",
        ],
        *["server.key.2026-01-02", "server.key.20260102", "server.key.gz", ".pgpass_old", ".netrc.save", ".npmrc.orig"],
        *[
            "secrets.prod.yaml",
            "prod-secrets.yml",
            "app.secrets.json",
            "env.production",
            "env.local",
            "cookies.txt.bak",
        ],
        *[
            "cookies.txt",
            ".sentryclirc",
            "deploy_rsa",
            "wallet.dat",
            "acme.json",
            "wg0.conf",
            ".htdigest",
            "logins.json",
            "key4.db",
        ],
        *[".mylogin.cnf", "app.psafe3", "ssh_host_ed25519_key", "sftp-config.json", "kaggle.json", ".databrickscfg"],
        *[".vscode/sftp.json", ".circleci/cli.yml"],
    ],
)
def test_secrets_are_known_by_their_paths(path: str) -> None:
    assert is_sensitive(PurePosixPath(path))


@pytest.mark.parametrize(
    "path",
    [
        "env.py",
        "src/environment.ts",
        "keys.py",
        "keyboard.md",
        "credentials.py",
        "secrets.py",
        "id_rsa.pub",
        "docs/docker/config.json",
        "README.md",
        ".gitignore",
        "monkey",
        ".",
        "ssh/config",
        "tokens.json",
        "token.py",
        "auth.py",
        "settings.xml",
        "password_reset.html",
        "main.tf",
        "history.md",
        *[".env.example", ".env.sample", ".env.local.example", "secrets.yaml.example", "terraform.tfvars.example"],
        *[
            "cookies.py",
            "cookies.ts",
            "env.d.ts",
            "env.js",
            "env.example",
            "secrets.go",
            "kubeconfig.py",
            "design-tokens.json",
        ],
        *[
            "id_rsa.pub.bak",
            "main.py.orig",
            "notes~",
            "a.bak",
            "token.rs",
            "secretary.json",
            "test_secrets.py",
            "key.txt.md",
        ],
        *["password-reset.json", "forgot-password.html", "credentials.md", "report.2026-01-02", "data.csv.gz"],
    ],
)
def test_ordinary_files_are_no_secrets(path: str) -> None:
    assert not is_sensitive(PurePosixPath(path))


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/HEAD",
        ".vibe/tools/x.py",
        ".GIT/x",
        ".agents/skills/x/SKILL.md",
    ],
)
def test_what_decides_what_runs_later_is_control(path: str) -> None:
    assert is_control(PurePosixPath(path))


@pytest.mark.parametrize("path", [".gitignore", ".github/workflows/ci.yml", "git/x", "vibe/core/x.py"])
def test_other_files_are_no_control(path: str) -> None:
    assert not is_control(PurePosixPath(path))
