"""Changing the list of trusted folders."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vibe.core.config.trust import TrustStore
from vibe.system.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "me" / ".vibe"


def trust_file(home: Path) -> TrustStore:
    return TrustStore(home, user_home=home.parent)


def is_trusted(home: Path, folder: Path) -> bool:
    return TrustStore(home, user_home=home.parent).is_trusted(folder)


def test_a_folder_is_trusted_from_then_on(home: Path, tmp_path: Path) -> None:
    assert trust_file(home).add(tmp_path / "a")
    assert is_trusted(home, tmp_path / "a" / "b")
    assert not is_trusted(home, tmp_path)
    assert trust_file(home).folders() == ((str(tmp_path / "a"),), ())
    assert stat.S_IMODE((home / "trusted_folders.toml").stat().st_mode) == 0o600


def test_what_is_trusted_already_changes_nothing(home: Path, tmp_path: Path) -> None:
    trust_file(home).add(tmp_path / "a")
    before = (home / "trusted_folders.toml").read_bytes()
    assert not trust_file(home).add(tmp_path / "a" / "b")
    assert (home / "trusted_folders.toml").read_bytes() == before


def test_comments_stay(home: Path, tmp_path: Path) -> None:
    home.mkdir(parents=True)
    file = home / "trusted_folders.toml"
    file.write_text(f'# mine\ntrusted = [\n  "{tmp_path}/old", # the old one\n]\n')
    trust_file(home).add(tmp_path / "new")
    text = file.read_text()
    assert "# mine" in text
    assert "# the old one" in text
    assert is_trusted(home, tmp_path / "old")
    assert is_trusted(home, tmp_path / "new")


def test_trust_is_taken_back(home: Path, tmp_path: Path) -> None:
    trust_file(home).add(tmp_path / "a")
    assert trust_file(home).remove(tmp_path / "a")
    assert not is_trusted(home, tmp_path / "a")
    assert not trust_file(home).remove(tmp_path / "a")


def test_a_folder_below_a_trusted_one_can_be_taken_out_and_put_back(home: Path, tmp_path: Path) -> None:
    trust_file(home).add(tmp_path / "a")
    assert trust_file(home).remove(tmp_path / "a" / "b")
    assert is_trusted(home, tmp_path / "a")
    assert not is_trusted(home, tmp_path / "a" / "b")
    assert trust_file(home).add(tmp_path / "a" / "b")
    assert is_trusted(home, tmp_path / "a" / "b")


def test_an_entry_written_with_a_tilde_is_found(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "trusted_folders.toml").write_text('trusted = ["~/code"]\n')
    assert trust_file(home).remove(home.parent / "code")
    assert not is_trusted(home, home.parent / "code")


def test_a_list_that_is_not_valid_is_refused_and_left_alone(home: Path, tmp_path: Path) -> None:
    home.mkdir(parents=True)
    file = home / "trusted_folders.toml"
    for text in ("trusted = [", "trusted = 3\n", 'trusted = ["relative"]\n'):
        file.write_text(text)
        with pytest.raises(ConfigError):
            trust_file(home).add(tmp_path)
        assert file.read_text() == text


def test_a_linked_list_stays_a_link_and_keeps_its_mode(home: Path, tmp_path: Path) -> None:
    home.mkdir(parents=True)
    real = tmp_path / "dotfiles" / "trusted.toml"
    real.parent.mkdir()
    real.write_text("trusted = []\n")
    real.chmod(0o640)
    (home / "trusted_folders.toml").symlink_to(real)
    TrustStore(home, user_home=tmp_path).add(tmp_path / "work")
    assert (home / "trusted_folders.toml").is_symlink()
    assert "work" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_all_who_trust_at_once_are_heard(home: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from vibe.core.config.trust import TrustStore\n"
        "home, base, who = map(Path, sys.argv[1:])\n"
        "for n in range(5): TrustStore(home, user_home=base).add(base / f'{who}-{n}')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, home, tmp_path, str(who)]) for who in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    trusted, _ = TrustStore(home, user_home=tmp_path).folders()
    assert len(trusted) == 20
