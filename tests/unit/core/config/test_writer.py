from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path

import pytest

from vibe.core.config.schema import parse_key
from vibe.core.config.writer import ConfigWriter
from vibe.system.errors import ConfigError

FILE = """\
# mine, do not touch
active_model = "devstral-2"   # the big one

[tools.bash]
# careful
allowlist = [
    "git status",  # harmless
]

[[models]]
name = "one"   # first
provider = "mistral"
alias = "uno"
"""


def writer(path: Path) -> ConfigWriter:
    return ConfigWriter(path, "config.toml", lambda _: None)


def test_a_change_leaves_comments_order_and_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)

    writer(path).set("active_model", "local")
    writer(path).set("models[uno].temperature", 0.5)
    writer(path).set("tools.bash.permission", "never")
    writer(path).add_to_list("tools.bash.allowlist", "ls", "git status")

    changed = path.read_text()
    assert [line for line in changed.splitlines() if line not in FILE.splitlines()] == [
        'active_model = "local"   # the big one',
        '    "ls",',
        'permission = "never"',
        "temperature = 0.5",
    ]
    assert tomllib.loads(changed)["tools"]["bash"] == {"allowlist": ["git status", "ls"], "permission": "never"}


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"

    writer(path).add_to_list("tools.bash.allowlist", "npm test", start=["ls"])

    assert tomllib.loads(path.read_text()) == {"tools": {"bash": {"allowlist": ["ls", "npm test"]}}}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["config.toml"]


def test_what_the_check_refuses_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    seen: list[str] = []

    def refuse(draft: Path) -> None:
        seen.append(draft.read_text())
        raise ConfigError("config.toml:2", "active_model", "no")

    with pytest.raises(ConfigError):
        ConfigWriter(path, "config.toml", refuse).set("active_model", "x")
    assert 'active_model = "x"' in seen[0]
    assert path.read_text() == FILE
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("models[nosuch].temperature", r"models\[nosuch\]: is not set in this file"),
        ("active_model.x", "active_model: is not a table"),
        ("a..b", "is not a key"),
        ("", "is not a key"),
    ],
)
def test_keys_that_lead_nowhere_say_so(tmp_path: Path, key: str, sentence: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)

    with pytest.raises(ConfigError, match=sentence):
        writer(path).set(key, 1)
    assert path.read_text() == FILE


@pytest.mark.parametrize(
    ("text", "verb", "key", "value", "sentence"),
    [
        ("[mcp_servers.x]", "add_entry", "mcp_servers", {"name": "y"}, "must be a list of tables to add to"),
        ("[mcp_servers.x]", "set", "mcp_servers[x].name", "y", "mcp_servers: is not a list of tables"),
        ("[tool_paths]", "add_to_list", "tool_paths", "y", "tool_paths: must be a list to add to"),
        ("[[tools]]", "set", "tools.bash.permission", "ask", "tools: is not a table"),
        ("mcp_servers = ['x', []]", "set", "mcp_servers[x].name", "y", r"mcp_servers\[x\]: is not set"),
        ("mcp_servers = ['x', []]", "remove_entry", "mcp_servers", "x", r"mcp_servers\[x\]: is not set"),
        ("[[models]]\nalias = ['x']", "set", "models[x].name", "y", r"models\[x\]: is not set"),
    ],
)
def test_a_place_of_another_kind_is_told_and_left_alone(
    tmp_path: Path, text: str, verb: str, key: str, value: object, sentence: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=sentence):
        getattr(writer(path), verb)(key, value)
    assert path.read_text() == text


def test_a_file_that_is_no_toml_is_left_alone_and_its_line_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("a = 1\nb = \n")

    with pytest.raises(ConfigError, match=r"config\.toml:2"):
        writer(path).set("active_model", "x")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_link_stays_a_link_and_the_mode_stays(tmp_path: Path, umask: int) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("a = 1\n")
    real.chmod(0o640)
    link = tmp_path / "config.toml"
    link.symlink_to(real)

    before = os.umask(umask)
    try:
        writer(link).set("b", 2)
    finally:
        os.umask(before)

    assert link.is_symlink()
    assert real.read_text() == "a = 1\nb = 2\n"
    assert real.stat().st_mode & 0o777 == 0o640


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    names = [f"entry-{number}" for number in range(8)]

    def add(name: str) -> None:
        writer(path).add_to_list("tools.bash.allowlist", name)

    threads = [threading.Thread(target=add, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(tomllib.loads(path.read_text())["tools"]["bash"]["allowlist"]) == names


def test_keys_are_dotted_and_entries_in_brackets() -> None:
    assert parse_key("tools.bash.allowlist") == ("tools", "bash", "allowlist")
    assert parse_key("models[my.model].temperature") == ("models", "[my.model]", "temperature")
