"""``vibe setup``: by flags, and on a terminal. What it sets up serves the next command.

Covers ``vibe.app.first_use``.
"""

from __future__ import annotations

import sys
import termios
from pathlib import Path

import pytest

from tests.e2e.conftest import VIBE, Finished, VibeCommand, interrupt
from tests.fakes.keyrings import FileKeyring, HangingKeyring, LockedKeyring, keyring_variables
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.terminal import Terminal
from tests.fakes.tmux import Tmux

KEY = "sk-0123456789abcdefghijWXYZ"
WRONG = "sk-wrong-wrong-wrong-wrong-1234"
SERVED = '[[providers]]\nname = "served"\napi_base = "{}"\napi_key_env_var = "SERVED_KEY"\n'
BY_FLAGS = ("setup", "--provider", "served", "--model", "small")


@pytest.fixture
def server(vibe: VibeCommand, server: ModelServer) -> ModelServer:
    del vibe.environ["SERVED_KEY"]
    server.key, server.models = KEY, ("large", "small")
    vibe.configure(SERVED.format(server.api_base))
    return server


def untouched(vibe: VibeCommand) -> bool:
    return not (vibe.home / ".env").exists() and "active_model" not in (vibe.home / "config.toml").read_text()


def test_by_flags_a_key_is_tried_and_kept_and_then_serves(vibe: VibeCommand, server: ModelServer) -> None:
    server.enqueue(Reply(text="ready"), Reply(text="It is a test."))

    done = vibe.process(*BY_FLAGS, "--key-from", "-", stdin=f"{KEY}\n")
    answer = vibe.process("-p", "what is this?")

    assert (done.code, done.err) == (0, "")
    first, *kept = done.out.splitlines()
    assert first.startswith("small answered after ")
    assert kept == [
        f"the key ****WXYZ is kept in {vibe.home}/.env as SERVED_KEY",
        f"active_model is 'small' in {vibe.home}/config.toml",
    ]
    assert (answer.code, answer.out.strip()) == (0, "It is a test.")
    assert (vibe.home / ".env").read_text() == f"SERVED_KEY={KEY}\n"
    assert (vibe.home / ".env").stat().st_mode & 0o777 == 0o600


def test_a_key_of_another_variable_is_told_as_a_document(vibe: VibeCommand, server: ModelServer) -> None:
    server.enqueue(Reply(text="ready"))
    vibe.environ["MY_KEY"] = KEY

    document = vibe(*BY_FLAGS, "--key-from", "MY_KEY", "--output", "json").document

    assert document.pop("detail").startswith("small answered after ")
    assert document == {
        "provider": "served",
        "model": "small",
        "key_variable": "SERVED_KEY",
        "answered": True,
        "fault": None,
        "kept": [
            f"the key ****WXYZ is kept in {vibe.home}/.env as SERVED_KEY",
            f"active_model is 'small' in {vibe.home}/config.toml",
        ],
    }


def test_a_refused_key_changes_nothing(vibe: VibeCommand, server: ModelServer) -> None:
    text = vibe(*BY_FLAGS, "--key-from", "-", stdin=WRONG)
    listed = vibe(*BY_FLAGS, "--key-from", "-", "--output", "json", stdin=WRONG)

    assert server.requests
    assert (text.code, text.out, text.err.count("\n")) == (3, "", 1)
    assert "'served' refused the key ****1234 (HTTP 401)" in text.err
    assert (listed.code, listed.document["fault"], listed.document["kept"]) == (3, "key", [])
    assert untouched(vibe)


def test_without_a_test_nothing_is_asked(vibe: VibeCommand, server: ModelServer) -> None:
    done = vibe(*BY_FLAGS, "--key-from", "-", "--no-test", stdin=KEY)

    assert (done.code, server.requests) == (0, [])
    assert 'active_model = "small"' in (vibe.home / "config.toml").read_text()


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("setup",), "", "--provider is missing, and there is no terminal to ask: name one of served, mistral"),
        (("setup", "--provider", "srved"), "", "unknown provider 'srved': did you mean 'served'"),
        (("setup", "--provider", "served"), "", "--key-from is missing, and there is no terminal to ask"),
        (("setup", "--provider", "served", "--key-from", "-"), KEY, "--model is missing, and there is no terminal"),
        ((*BY_FLAGS, "--key-from", "-"), "", "there is nothing on standard input: write the key to it"),
        ((*BY_FLAGS, "--key-from", KEY), "", "there is no key in a variable of that name"),
        ((*BY_FLAGS, "--key-from", "-"), "a key", "that is not a key: there is a space in it"),
        (("setup", "--provider", "ollama", "--key-from", "-", "--model", "x"), KEY, "'ollama' takes no key"),
        (("setup", KEY), "", "unknown argument"),
    ],
)
def test_what_is_missing_or_wrong_is_a_sentence(
    vibe: VibeCommand, words: tuple[str, ...], stdin: str, said: str
) -> None:
    vibe.configure(SERVED.format("http://127.0.0.1:9/v1"))

    ended: Finished = vibe(*words, stdin=stdin)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
    assert untouched(vibe)


def test_a_key_in_the_keyring_serves_and_is_removed(vibe: VibeCommand, server: ModelServer, tmp_path: Path) -> None:
    vibe.environ |= keyring_variables(FileKeyring, tmp_path / "keyring.json")
    server.enqueue(Reply(text="ready"), Reply(text="It is a test."))

    done = vibe.process(*BY_FLAGS, "--key-from", "-", "--key-store", "keyring", stdin=KEY)
    answer = vibe.process("-p", "what is this?")
    found = {row["subject"]: row["detail"] for row in vibe.process("doctor", "--output", "json").document["findings"]}
    removed = vibe.process("setup", "--provider", "served", "--forget-key")
    after = vibe.process("-p", "what is this?")

    assert (done.code, done.err) == (0, "")
    assert "the key ****WXYZ is kept in the keyring as SERVED_KEY" in done.out
    assert (answer.code, answer.out.strip()) == (0, "It is a test.")
    assert found["keys"] == "SERVED_KEY in the keyring"
    assert (removed.code, removed.out) == (0, "SERVED_KEY is removed from the keyring\n")
    assert (after.code, "no API key for provider 'served'" in after.err) == (3, True)
    assert not (vibe.home / ".env").exists()
    assert KEY not in (tmp_path / "keyring.json").read_text()


def test_a_keyring_that_fails_is_told_with_what_to_do(vibe: VibeCommand, server: ModelServer, tmp_path: Path) -> None:
    vibe.environ |= keyring_variables(LockedKeyring, tmp_path)
    refused = vibe.process(*BY_FLAGS, "--key-from", "-", "--key-store", "keyring", "--no-test", stdin=KEY)
    assert (refused.code, refused.out) == (3, "")
    assert refused.err == (
        "vibe: the keyring can't be used: Failed to unlock the collection!; keep the key in a file: --key-store file\n"
    )
    assert untouched(vibe)

    vibe.configure((vibe.home / "config.toml").read_text() + '[[models]]\nname = "small"\nprovider = "served"\n')
    vibe.configure(
        'active_model = "small"\nkeys_in_keyring = ["SERVED_KEY"]\n' + (vibe.home / "config.toml").read_text()
    )
    answer = vibe.process("-p", "what is this?")
    doctor = vibe.process("doctor")
    assert (answer.code, answer.out, server.requests) == (3, "", [])
    assert "the keyring does not return SERVED_KEY (see `vibe doctor`): unlock it" in answer.err
    assert doctor.code == 3
    assert "FAIL keys     SERVED_KEY is not set: run `vibe setup`" in doctor.out
    assert "Failed to unlock the collection!; unlock it, or set SERVED_KEY in the environment" in doctor.out

    server.enqueue(Reply(text="It is a test."))
    (vibe.home / ".env").write_text(f"SERVED_KEY={KEY}\n")
    (vibe.home / ".env").chmod(0o600)
    answer = vibe.run([sys.executable, "-X", "importtime", "-m", "vibe", "-p", "what is this?"])
    assert answer.out.strip() == "It is a test."
    assert "keyring" not in answer.err  # the keyring is not loaded unless needed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forget-key",), "--forget-key: --provider is missing"),
        (("--forget-key", "--provider", "served"), "there is no key of 'served' in "),
        (("--forget-key", "--provider", "served", "--model", "m"), "leave --model out"),
        (("--key-store", "cloud"), "unknown --key-store 'cloud': choose from keyring, file"),
    ],
)
def test_what_can_be_neither_kept_nor_removed_is_told(
    vibe: VibeCommand, server: ModelServer, words: tuple[str, ...], said: str
) -> None:
    ended = vibe("setup", *words)
    assert (ended.code, ended.out, server.requests) == (2, "", [])
    assert said in ended.err


def start(tmux: Tmux, vibe: VibeCommand) -> None:
    tmux.start([VIBE, "setup"], cwd=vibe.workdir, env=vibe.variables())
    tmux.wait_for("Choose a provider")
    tmux.wait_for_last("Esc: leave]  > ")


def test_at_a_terminal_it_asks_for_all_and_shows_no_key(vibe: VibeCommand, server: ModelServer, tmux: Tmux) -> None:
    server.enqueue(Reply(status=404, body='{"message": "loading"}'), Reply(text="ready"), Reply(text="It is a test."))
    start(tmux, vibe)
    for typed, seen, times in (
        ("1", "The key of served (SERVED_KEY)", 1),
        ("two words", "that is not a key: there is a space in it", 1),
        (WRONG, "served refused the key: check that all of it was copied", 1),
        ("1", "The key of served (SERVED_KEY)", 2),
        (KEY, "2) small", 1),
        ("sma", "'served' does not serve the model 'small' (HTTP 404): choose another", 1),
        ("3", "small answered after ", 1),
    ):
        tmux.type(typed)
        tmux.wait_for(seen, times)
        if not seen.startswith("small answered"):
            tmux.wait_for_last("]  > ")
    tmux.wait_for("EXIT 0")
    screen = "\n".join(tmux.screen())

    assert KEY not in screen
    assert WRONG not in screen
    assert "the key ****WXYZ is kept in" in screen
    assert "Ready. Try it: vibe -p" in screen
    assert vibe.process("-p", "what is this?").out.strip() == "It is a test."


@pytest.mark.parametrize(
    ("kind", "place"), [(FileKeyring, "the keyring"), (HangingKeyring, "{home}/.env")], ids=["works", "hangs"]
)
def test_at_a_terminal_the_key_goes_into_a_keyring_that_works(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux, kind: type[FileKeyring], place: str
) -> None:
    server.enqueue(Reply(text="ready"))
    vibe.environ |= keyring_variables(kind, vibe.workdir / "keyring.json")
    start(tmux, vibe)
    tmux.type("1")
    tmux.wait_for("The key of served (SERVED_KEY)")
    tmux.wait_for_last("]  > ")
    tmux.type(KEY)
    tmux.wait_for("2) small")
    tmux.wait_for_last("]  > ")
    tmux.type("2")
    if kind is FileKeyring:
        tmux.wait_for("Where should the key be stored?")
        tmux.wait_for_last("]  > ")
        tmux.type("1")
    tmux.wait_for("EXIT 0")
    screen = "".join(tmux.screen())

    assert f"the key ****WXYZ is kept in {place.format(home=vibe.home)} as SERVED_KEY" in screen
    assert (vibe.home / ".env").exists() == (kind is HangingKeyring)


@pytest.mark.parametrize(("key", "code"), [("Escape", 5), ("C-d", 5)])
def test_whoever_leaves_has_changed_nothing(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux, key: str, code: int
) -> None:
    start(tmux, vibe)
    tmux.type("1")
    tmux.wait_for("The key of served (SERVED_KEY)")
    tmux.wait_for_last("]  > ")
    tmux.press(key)
    tmux.wait_for(f"EXIT {code}")

    assert untouched(vibe)
    assert server.requests == []


def test_whoever_is_interrupted_has_changed_nothing_and_sees_what_they_type_again(
    vibe: VibeCommand, server: ModelServer
) -> None:
    with Terminal() as terminal, vibe.on(terminal, "setup", "--provider", "served") as process:
        terminal.wait_for("[not shown as you type; Esc: leave]")
        hidden = termios.tcgetattr(terminal.slave)[3] & termios.ECHO == 0
        interrupt(process)
        code = process.wait(timeout=60)
        shown = termios.tcgetattr(terminal.slave)[3] & termios.ECHO != 0

    assert (code, hidden, shown) == (130, True, True)
    assert untouched(vibe)
    assert server.requests == []
