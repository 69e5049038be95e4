"""Signing in to a server that requires it: the installed command, a real server, and results for its users only.

Covers ``vibe.cli.commands``, ``vibe.core.tools.mcp``.
"""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.e2e.conftest import Finished, VibeCommand
from tests.fakes import browser
from tests.fakes.keyrings import FileKeyring, keyring_variables
from tests.fakes.mcp_peers import PEN, http_server
from tests.fakes.ports import free_port

GUARDED = (sys.executable, str(Path(__file__).parents[1] / "fakes" / "mcp_guarded.py"))
BROWSER = f"{sys.executable} {browser.__file__} %s"


@dataclass
class Guarded:
    """A server whose rules a test changes while it runs."""

    vibe: VibeCommand
    url: str
    rules_file: Path

    @property
    def sign_ins(self) -> Path:
        return self.vibe.home / "mcp_sign_ins.json"

    @property
    def log(self) -> list[str]:
        log = self.rules_file.with_suffix(".log")
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def granted(self) -> list[str]:
        return [word for word in self.log if word != "left"]

    def rules(self, **rules: Any) -> None:
        self.rules_file.write_text(json.dumps(rules))

    def kept(self) -> dict[str, Any]:
        return json.loads(self.sign_ins.read_text())["servers"]

    def log_in(self, *words: str) -> Finished:
        return self.vibe("mcp", "login", "vault", *words)

    def log_in_as_process(self) -> Finished:
        """Log in with the installed command, since the variables of its process choose the keyring."""
        return self.vibe.process("mcp", "login", "vault")

    def call(self) -> list[str]:
        """Return the tool's results in a new run."""
        lines = self.vibe("--yolo", "--output", "streaming", "-p", "go").lines
        return [line["content"] for line in lines if line["type"] == "tool.result"]


def configured(vibe: VibeCommand, name: str, url: str, **fields: str) -> None:
    entry = {"name": name, "transport": "http", "url": url, **fields}
    with (vibe.home / "config.toml").open("a") as file:
        lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
        file.write("\n[[mcp_servers]]\nstartup_timeout_sec = 30.0\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Run the server for the tests of this module, and yield its address and the file of its rules."""
    port, rules = free_port(), tmp_path_factory.mktemp("guarded") / "rules.json"
    rules.write_text("{}")
    with http_server(*GUARDED, str(port), str(rules), port=port) as url:
        yield url, rules


@pytest.fixture
def guarded(vibe: VibeCommand, served: tuple[str, Path]) -> Guarded:
    url, rules = served
    rules.write_text("{}")
    rules.with_suffix(".log").unlink(missing_ok=True)
    turns: list[dict[str, Any]] = [{"tool_calls": [{"name": "vault_secret", "arguments": {}}]}, {"text": "done"}]
    vibe.replay({"agents": {"main": {"turns": turns}}})
    vibe.environ["BROWSER"] = BROWSER
    configured(vibe, "vault", url)
    return Guarded(vibe, url, rules)


def address_of(process: subprocess.Popen[bytes]) -> str:
    """Return the address that a process prints."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(b"  http"):
            return line.decode().strip()
    raise AssertionError("it printed no address")


def ended(process: subprocess.Popen[bytes]) -> Finished:
    out, err = process.communicate(timeout=60)
    return Finished(process.returncode, out.decode(), err.decode())


def test_who_signs_in_has_the_servers_tools_until_they_sign_out(guarded: Guarded) -> None:
    before = guarded.vibe("mcp", "list")

    login = guarded.log_in_as_process()
    mode = stat.S_IMODE(guarded.sign_ins.stat().st_mode)
    listed = guarded.vibe("mcp", "list")
    heard = guarded.call()
    logout = guarded.vibe("mcp", "logout", "vault")
    after = guarded.vibe("mcp", "list")

    assert "asks you to sign in: run `vibe mcp login vault`" in before.out
    assert (login.code, "signed in to vault; its tokens are kept in" in login.out) == (0, True), login.err
    assert f"{guarded.sign_ins}, for you alone to read (the keyring can't be used" in login.out
    assert mode == 0o600
    assert "vault_secret" in listed.out
    assert heard == ["forty-two"]
    assert (logout.code, logout.out, guarded.kept()) == (0, "signed out of vault: its tokens are revoked\n", {})
    assert guarded.granted[-2:] == ["revoked", "revoked"]
    assert "run `vibe mcp login vault`" in after.out


def test_the_session_that_asked_whether_to_sign_in_is_ended(guarded: Guarded) -> None:
    login = guarded.log_in()

    assert (login.code, guarded.log) == (0, ["authorization_code", "left"]), login.err


def test_tokens_that_the_server_does_not_revoke_are_forgotten_all_the_same_and_that_is_told(guarded: Guarded) -> None:
    guarded.log_in()
    kept = guarded.kept()[guarded.url]
    guarded.rules(revoke=False)
    failed = guarded.vibe("mcp", "logout", "vault")
    forgotten = guarded.kept()
    del kept["revocation_endpoint"]
    guarded.sign_ins.write_text(json.dumps({"servers": {guarded.url: kept}}))
    nowhere = guarded.vibe("mcp", "logout", "vault")

    assert (failed.code, failed.out) == (3, "signed out of vault: its tokens are forgotten here\n")
    assert "are not revoked: its server answered HTTP 500" in failed.err
    assert (forgotten, guarded.kept()) == ({}, {})
    assert (nowhere.code, "it revokes none" in nowhere.out) == (0, True)


def test_tokens_are_in_the_keyring_where_one_works(guarded: Guarded, tmp_path: Path) -> None:
    kept = tmp_path / "keyring.json"
    guarded.vibe.environ |= keyring_variables(FileKeyring, kept)
    guarded.rules(lifetime=5)
    login = guarded.log_in_as_process()
    entry, secrets = guarded.kept()[guarded.url], kept.read_text()
    guarded.rules(lifetime=3600)
    run = guarded.vibe.process("--yolo", "-p", "go", "--output", "streaming")
    renewed = kept.read_text()
    logout = guarded.vibe.process("mcp", "logout", "vault")

    assert "its tokens are kept in the keyring" in login.out, login.err
    assert ("access_token" in entry, "access_token" in secrets, secrets == renewed) == (False, True, False)
    assert [line["content"] for line in run.lines if line["type"] == "tool.result"] == ["forty-two"]
    assert (logout.code, guarded.kept(), json.loads(kept.read_text())) == (0, {}, {})


def test_tokens_are_nowhere_but_in_their_file_and_go_to_no_other_server(guarded: Guarded, tmp_path: Path) -> None:
    guarded.log_in()
    port = free_port()
    with http_server(*GUARDED, str(port), str(guarded.rules_file), port=port) as other:
        configured(guarded.vibe, "other", other)
        listed = guarded.vibe("mcp", "list")
    guarded.call()

    secrets = [entry[key] for entry in guarded.kept().values() for key in ("access_token", "refresh_token")]
    holders = [
        path.name
        for path in tmp_path.rglob("*")
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets)
    ]
    assert list(guarded.kept()) == [guarded.url]
    assert "run `vibe mcp login other`" in listed.out
    assert holders == ["mcp_sign_ins.json"]


def test_a_token_is_renewed_before_it_ends_and_when_it_is_refused(guarded: Guarded) -> None:
    guarded.rules(lifetime=5)
    guarded.log_in()
    guarded.rules(lifetime=3600)
    early = guarded.call()
    first = guarded.granted
    guarded.rules(epoch=1)
    refused = guarded.call()

    assert (early, first) == (["forty-two"], ["authorization_code", "refresh_token"])
    assert (refused, guarded.granted) == (["forty-two"], ["authorization_code", "refresh_token", "refresh_token"])


def test_a_sign_in_that_can_not_be_renewed_is_asked_for_again(guarded: Guarded) -> None:
    guarded.log_in()
    guarded.rules(epoch=1, renew=False)
    listed = guarded.vibe("mcp", "list")
    again = guarded.log_in()

    assert "run `vibe mcp login vault`" in listed.out
    assert (again.code, guarded.call()) == (0, ["forty-two"])


def test_a_place_of_tokens_that_is_down_is_named_and_asks_for_no_sign_in(guarded: Guarded) -> None:
    guarded.log_in()
    guarded.rules(epoch=1)
    closed = f"http://127.0.0.1:{free_port()}/token"
    kept = guarded.sign_ins.read_text()
    guarded.sign_ins.write_text(kept.replace(f"{guarded.url.removesuffix('/mcp')}/token", closed))
    listed = guarded.vibe("mcp", "list")
    guarded.sign_ins.write_text(kept)

    assert f"needs a new token, and {closed} renews no token now (" in listed.out
    assert "mcp login" not in listed.out
    assert guarded.call() == ["forty-two"]


def test_the_address_is_printed_and_only_the_answer_to_it_counts_and_once(guarded: Guarded) -> None:
    process = guarded.vibe.start("mcp", "login", "vault", "--no-browser")
    address = address_of(process)
    callback = parse_qs(urlsplit(address).query)["redirect_uri"][0]

    elsewhere = browser.visited(callback.replace("/callback", "/"))
    foreign = browser.visited(f"{callback}?code=x&state=another")
    right = browser.visited(address)
    login = ended(process)

    assert elsewhere[0] == 404
    assert (foreign[0], "another sign-in" in foreign[1]) == (400, True)
    assert (right[0], "go back to the terminal" in right[1]) == (200, True)
    assert (login.code, "turned away" in login.err) == (0, True), login.err


def test_what_comes_to_nothing_says_why_and_leaves_the_sign_in_before(guarded: Guarded) -> None:
    guarded.log_in()
    before = guarded.sign_ins.read_bytes()

    guarded.rules(deny=True)
    denied = guarded.log_in()
    guarded.rules(register=False)
    unregistered = guarded.log_in()
    guarded.rules()
    late = guarded.log_in("--no-browser", "--timeout", "0.2")
    stopped = guarded.vibe.start("mcp", "login", "vault", "--no-browser")
    address_of(stopped)
    stopped.send_signal(signal.SIGINT)
    interrupted = ended(stopped)

    assert (denied.code, "it was refused (access_denied: not you)" in denied.err) == (3, True), denied.err
    assert (unregistered.code, "--client-id" in unregistered.err) == (3, True), unregistered.err
    assert (late.code, "no answer came within 0.2 s" in late.err) == (3, True), late.err
    assert (interrupted.code, "it was interrupted" in interrupted.err) == (130, True), interrupted.err
    assert all(one.err.count("\n") == 1 for one in (denied, unregistered, late, interrupted))
    assert guarded.sign_ins.read_bytes() == before


def test_a_known_client_needs_no_registration(guarded: Guarded) -> None:
    port = free_port()
    guarded.rules(register=False, port=port)

    login = guarded.log_in("--client-id", "known", "--port", str(port))

    assert (login.code, guarded.call()) == (0, ["forty-two"]), login.err


def test_servers_without_a_sign_in_say_so(vibe: VibeCommand) -> None:
    port = free_port()
    vibe.configure('[[mcp_servers]]\nname = "own"\ntransport = "stdio"\ncommand = "cat"\n')
    configured(vibe, "keyed", "https://keyed.example/mcp", api_key_env="KEYED")
    configured(vibe, "clear", "http://clear.example/mcp")
    vibe.environ["KEYED"] = "k"
    with http_server(*PEN, "http", str(port), port=port) as url:
        configured(vibe, "closed", f"http://127.0.0.1:{free_port()}/mcp")
        configured(vibe, "open", url)
        names = ("nobody", "own", "keyed", "clear", "closed", "open")
        logins = {name: vibe("mcp", "login", name, "--no-browser") for name in names}
    logout = vibe("mcp", "logout", "open")

    said = {name: (login.code, login.err) for name, login in logins.items()}
    assert said["nobody"][0] == said["own"][0] == said["keyed"][0] == logout.code == 2
    assert "is not configured; there are: own, keyed, clear, closed, open" in said["nobody"][1]
    assert "a command on this machine" in said["own"][1]
    assert "has its own key" in said["keyed"][1]
    assert (said["clear"][0], "is not https" in said["clear"][1]) == (3, True)
    assert (said["closed"][0], "can't be reached" in said["closed"][1]) == (3, True)
    assert (said["open"][0], "does not ask for that" in said["open"][1]) == (3, True)
    assert "is not signed in" in logout.err
    assert not (vibe.home / "mcp_sign_ins.json").exists()


def test_a_damaged_file_of_sign_ins_is_told_and_stays(guarded: Guarded) -> None:
    guarded.sign_ins.write_text('{"servers": [')

    ends = [guarded.log_in(), guarded.vibe("mcp", "logout", "vault")]

    assert [(end.code, "are damaged" in end.err) for end in ends] == [(3, True)] * 2
    assert guarded.sign_ins.read_text() == '{"servers": ['
    assert "run `vibe mcp login vault`" in guarded.vibe("mcp", "list").out
