from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend
from keyring.backends.chainer import ChainerBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.backends.null import Keyring as NullKeyring

from tests.fakes.keyrings import (
    FileKeyring,
    ForgetfulKeyring,
    HangingKeyring,
    LockedKeyring,
    keyring_of_this_process,
    keyring_variables,
)
from vibe.system.keyring import KeyringError, delete_secret, keyring_problem, read_secret, write_secret


def _none(_: Path) -> KeyringBackend:
    return NoKeyring()


def _null(_: Path) -> KeyringBackend:
    return NullKeyring()


def _locked(_: Path) -> KeyringBackend:
    return LockedKeyring()


class PlaintextKeyring(FileKeyring):
    __module__ = "keyrings.alt.file"


def test_a_secret_is_kept_replaced_and_removed(tmp_path: Path) -> None:
    backend = FileKeyring(tmp_path / "keyring.json")
    with keyring_of_this_process(backend):
        assert (keyring_problem(), backend.entries()) == (None, {})  # its trial leaves nothing
        assert read_secret("vibe", "A_KEY") is None
        write_secret("vibe", "A_KEY", "one")
        write_secret("vibe", "A_KEY", "two")
        assert (read_secret("vibe", "A_KEY"), read_secret("other", "A_KEY")) == ("two", None)
        assert [delete_secret("vibe", "A_KEY") for _ in range(2)] == [True, False]
        assert backend.entries() == {}


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (_none, "there is none on this machine, or its service is not running"),
        (_null, "there is none on this machine, or its service is not running"),
        (PlaintextKeyring, "there is none on this machine, or its service is not running"),
        (_locked, "Failed to unlock the collection!"),
        (ForgetfulKeyring, "it returns a different secret than it was given"),
    ],
)
def test_what_keeps_no_secret_is_no_keyring(
    tmp_path: Path, kind: Callable[[Path], KeyringBackend], problem: str
) -> None:
    with keyring_of_this_process(kind(tmp_path / "keyring.json")):
        found = keyring_problem()
    assert found is not None
    assert problem in found
    if "returns" not in problem:
        assert not (tmp_path / "keyring.json").exists()


def test_one_that_never_answers_holds_nobody_up(tmp_path: Path) -> None:
    HangingKeyring.left.clear()  # an earlier try of this test has set it
    with keyring_of_this_process(HangingKeyring()):
        try:
            assert keyring_problem(seconds=0.05) == "the keyring can't be used: it did not answer within 0.05 s"
            with pytest.raises(KeyringError, match="did not answer"):
                read_secret("vibe", "A_KEY", seconds=0.05)
        finally:
            HangingKeyring.left.set()
    program = "from vibe.system.keyring import keyring_problem; print(keyring_problem(seconds=0.05))"
    variables = os.environ | keyring_variables(HangingKeyring, tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    assert "did not answer" in ended.stdout


def test_of_several_the_first_that_keeps_secrets_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = FileKeyring(tmp_path / "keyring.json")
    monkeypatch.setattr(ChainerBackend, "backends", [PlaintextKeyring(tmp_path / "plain.json"), good])
    with keyring_of_this_process(ChainerBackend()):
        write_secret("vibe", "A_KEY", "one")
    assert good.entries() == {"vibe/A_KEY": "one"}


def test_a_backend_that_is_not_there_is_told(tmp_path: Path) -> None:
    program = "from vibe.system.keyring import keyring_problem; print(keyring_problem())"
    variables = os.environ | keyring_variables(FileKeyring, tmp_path) | {"PYTHON_KEYRING_BACKEND": "no.such.Keyring"}
    ended = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    assert ended.stdout == "the keyring can't be used: No module named 'no'\n"
