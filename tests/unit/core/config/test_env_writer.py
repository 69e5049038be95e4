"""Changes to the user's ``.env``."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from vibe.core.config.dotenv import read_env_file, with_variable, write_variable
from vibe.system.errors import EnvironmentFailure

FILE = """\
# my keys
export KEY='old one'  # of the firm
OTHER=1 # stays

# KEY=not this
"""


def read(path: Path) -> dict[str, str]:
    found = read_env_file(path, ".env")
    assert found.warnings == ()
    return dict(found.values)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "KEY=new\n"),
        ("A=1", "A=1\nKEY=new\n"),
        ("KEY=old", "KEY=new"),
        ("KEY=old\r\nA=1\r\n", "KEY=new\r\nA=1\r\n"),
        ("  export KEY = old # note\nA=1\n", "  export KEY = new  # note\nA=1\n"),
        ("KEY=\nA=1\n", "KEY=new\nA=1\n"),
        ('KEY="a \\" # b" # note\n', "KEY=new  # note\n"),
        ("KEY=a#b\n", "KEY=new\n"),
        ("KEY=first\nKEY=second\n", "KEY=first\nKEY=new\n"),
        ("MY_KEY=old\n# KEY=old\nKEY\n", "MY_KEY=old\n# KEY=old\nKEY\nKEY=new\n"),
    ],
)
def test_only_the_line_that_counts_is_changed(text: str, after: str) -> None:
    assert with_variable(text, "KEY", "new") == after


@pytest.mark.parametrize("value", ["sk-a1_B/2+=", "with#hash", 'it\'s \\ "it"', "$HOME `x`", "a=b", ""])
def test_what_is_written_is_what_is_read(tmp_path: Path, value: str) -> None:
    path = tmp_path / "home" / ".env"

    write_variable(path, ".env", "KEY", value)

    assert read(path) == {"KEY": value}


def test_all_else_stays_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(FILE)
    path.chmod(0o644)

    write_variable(path, ".env", "KEY", "new")

    assert path.read_text() == FILE.replace("'old one'", "new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [".env"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / ".env").symlink_to(tmp_path / "mine" / "keys")

    write_variable(tmp_path / ".env", ".env", "KEY", "new")

    assert (tmp_path / ".env").is_symlink()
    assert read(tmp_path / "mine" / "keys") == {"KEY": "new"}


def test_of_writers_at_once_none_loses_its_variable(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    names = [f"KEY{number}" for number in range(20)]
    threads = [threading.Thread(target=write_variable, args=(path, ".env", name, name.lower())) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read(path) == {name: name.lower() for name in names}


def test_a_folder_that_can_not_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").touch()

    with pytest.raises(EnvironmentFailure, match=r"home/\.env can't be written"):
        write_variable(tmp_path / "home" / "x" / ".env", "home/.env", "KEY", "sk-secret")
