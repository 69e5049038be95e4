"""Credentials in git's settings are found and removed, and git finds everything else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vibe.system.git.config_file import cleaned, has_credentials, without_credentials

SECRET = "s3cr3t"  # noqa: S105  made up
TOKEN = f"ghp_{SECRET}0123456789"
HOLDING = {
    "a password": f'[remote "o"]\n\turl = https://me:{SECRET}@host/a.git\n',
    "a token": f'[remote "o"]\n\turl = https://{TOKEN}@host/a.git\n',
    "a url to push to": f'[remote "o"]\n\turl = https://host/a\n\tpushurl = "https://x:{SECRET}@host/a"\n',
    "a header": f'[http "https://host/"]\n\textraheader = AUTHORIZATION: basic {SECRET}\n',
    "a header for all": f"[http]\n\textraHeader = X-Key: {SECRET}\n",
    "a proxy": f"[http]\n\tproxy = http://me:{SECRET}@proxy:3128\n",
    "a place of credentials": f'[credential "https://me:{SECRET}@host"]\n\tusername = me\n',
    "a helper": f'[credential]\n\thelper = "!f() {{ echo password={SECRET}; }}; f"\n',
    "an insteadOf": f'[url "https://oauth2:{SECRET}@host/"]\n\tinsteadOf = https://host/\n',
    "a submodule": f'[submodule "s"]\n\turl = https://me:{SECRET}@host/s.git\n',
    "an alias": f"[alias]\n\tpr = \"!curl -H 'Authorization: token {SECRET}' https://host\"\n",
    "a key of its own": f"[github]\n\toauth-token = {SECRET}\n[sendemail]\n\tsmtpPass = {SECRET}\n",
    "a folded line": f'[remote "o"]\n\turl = https://me:\\\n{SECRET}@host/a.git\n',
}
PLAIN = [
    '[remote "o"]\n\turl = git@host:a.git\n',
    '[remote "o"]\n\turl = ssh://git@host/a.git\n',
    '[remote "o"]\n\turl = https://org@dev.azure.com/org/a\n',
    '[user]\n\temail = me@host\n\tname = The secret passenger\n[branch "token"]\n\tremote = o\n',
    "[core]\n\taskPass = /usr/bin/ask\n",
    "",
]
REST = '[core]\n\tbare = false ; a comment\n[user]\n\tname = "A \\"B\\" # C"\n[branch "a\\\\b"]\n\tremote = o\n'


def listed(text: str, folder: Path) -> list[str]:
    file = folder / "listed"
    file.write_text(text)
    words = ["git", "config", "--file", str(file), "--list", "-z"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\0")


@pytest.mark.parametrize("name", HOLDING)
def test_credentials_are_taken_out_and_all_else_stays(tmp_path: Path, name: str) -> None:
    text = without_credentials(REST + HOLDING[name])

    assert text is not None
    assert SECRET not in text
    before = listed(REST, tmp_path)[:-1]
    assert listed(text, tmp_path)[: len(before)] == before
    assert without_credentials(text) is None


@pytest.mark.parametrize("text", PLAIN)
def test_settings_without_credentials_are_left_alone(text: str) -> None:
    assert without_credentials(REST + text) is None


def test_a_repository_has_those_of_its_settings(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("config", "other"):
        (tmp_path / ".git" / name).write_text(HOLDING["a token"])

    assert has_credentials(tmp_path / ".git")
    assert has_credentials(str(tmp_path / ".git" / "config"))
    assert not has_credentials(tmp_path / ".git" / "other")
    assert not has_credentials(tmp_path / "nothing" / "config")


def test_settings_that_are_not_understood_are_not_shown(tmp_path: Path) -> None:
    for name in ("config", "script"):
        (tmp_path / name).write_text(f"${{x}} https://me:{SECRET}@host/\n")

    assert cleaned(tmp_path / "config") == ""
    assert cleaned(tmp_path / "script") is None
