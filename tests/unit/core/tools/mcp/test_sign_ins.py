from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fakes.keyrings import FileKeyring, LockedKeyring, keyring_of_this_process
from vibe.core.tools.mcp.sign_ins import SignIn, SignInStore
from vibe.system.errors import EnvironmentFailure
from vibe.system.keyring import KeyringError

URL = "https://h.example/mcp"
RENEWS_AT = "https://h.example/token"


def sign_in(token: str) -> SignIn:
    return SignIn(token_endpoint=RENEWS_AT, client_id="c", access_token=token, refresh_token=f"r-{token}")


def test_a_sign_in_is_kept_for_its_own_address_alone_and_for_nobody_else_to_read(tmp_path: Path) -> None:
    store = SignInStore(tmp_path / "home" / "sign_ins.json")

    store.put(URL, sign_in("a"))
    store.put(f"{URL}/other", sign_in("b"))

    assert (store.find(URL), store.find("https://h.example/")) == (sign_in("a"), None)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert (store.drop(URL), store.drop(URL)) == (sign_in("a"), None)
    assert store.find(f"{URL}/other") == sign_in("b")


def test_tokens_in_the_keyring_are_read_once_renewed_there_and_gone_with_the_sign_in(tmp_path: Path) -> None:
    keyring = FileKeyring(tmp_path / "keyring")
    store, other = SignInStore(tmp_path / "sign_ins.json"), SignInStore(tmp_path / "sign_ins.json")
    with keyring_of_this_process(keyring):
        store.put(URL, sign_in("a"), in_keyring=True)
        found = store.find(URL)
        renewed = other.renew(URL, "a", lambda _: sign_in("b"))
        seen = store.find(URL)
        kept = keyring.path.read_text()
        with keyring_of_this_process(LockedKeyring()):
            again = store.find(URL)  # recognised by its version
            with pytest.raises(KeyringError):
                SignInStore(store.path).find(URL)
            with pytest.raises(KeyringError):
                SignInStore(store.path).drop(URL)
        text = store.path.read_text()
        dropped = store.drop(URL)

    assert (found, renewed, seen, again, dropped) == (sign_in("a"), *[sign_in("b")] * 4)
    assert ("r-b" in kept, "r-b" in text, "r-a" in text) == (True, False, False)
    assert keyring.entries() == {}
    assert store.find(URL) is None


def test_a_sign_in_whose_tokens_the_keyring_has_lost_is_none(tmp_path: Path) -> None:
    keyring, store = FileKeyring(tmp_path / "keyring"), SignInStore(tmp_path / "sign_ins.json")
    with keyring_of_this_process(keyring):
        store.put(URL, sign_in("a"), in_keyring=True)
        keyring.path.write_text("{}")
        lost = SignInStore(store.path).find(URL)
        store.put(URL, sign_in("b"))
        assert (lost, store.find(URL), keyring.entries()) == (None, sign_in("b"), {})


def test_of_many_whose_token_was_refused_one_asks_for_another(tmp_path: Path) -> None:
    store = SignInStore(tmp_path / "sign_ins.json")
    store.put(URL, sign_in("old"))
    asked: list[str] = []

    def ask(now: SignIn) -> SignIn:
        asked.append(now.access_token)
        return sign_in("new")

    with ThreadPoolExecutor(8) as pool:
        found = [one.result() for one in [pool.submit(store.renew, URL, "old", ask) for _ in range(8)]]

    assert asked == ["old"]
    assert found == [sign_in("new")] * 8


def test_what_can_not_be_renewed_stays(tmp_path: Path) -> None:
    store = SignInStore(tmp_path / "sign_ins.json")
    store.put(URL, sign_in("old"))

    assert store.renew(URL, "old", lambda _: None) is None
    assert store.find(URL) == sign_in("old")


@pytest.mark.parametrize("text", ["", "[]", '{"servers": 1}', '{"servers": {"u": {}}}', "\udcff"])
def test_a_damaged_file_is_told_without_what_is_in_it_and_stays(tmp_path: Path, text: str) -> None:
    store = SignInStore(tmp_path / "sign_ins.json")
    store.path.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(EnvironmentFailure, match="are damaged: remove the file"):
        store.put(URL, sign_in("a"))

    assert store.path.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_a_sign_in_shows_no_secret() -> None:
    assert "hidden" not in repr(sign_in("hidden"))
