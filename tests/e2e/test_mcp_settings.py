"""Commands add, remove and import servers, and leave the rest of the file as it was.

Covers ``vibe.cli.commands``, ``vibe.core.tools.mcp``.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

BEFORE = """# mine
auto_approve = true  # careful

[[mcp_servers]]
name = "first"  # the first
transport = "http"
url = "https://first.example/mcp"
"""


def servers(vibe: VibeCommand) -> list[dict[str, Any]]:
    return tomllib.loads((vibe.home / "config.toml").read_text()).get("mcp_servers", [])


def test_servers_are_added_and_removed_and_the_rest_of_the_file_stays(vibe: VibeCommand) -> None:
    vibe.configure(BEFORE)

    command = vibe("mcp", "add", "files", "--env", "A=${MINE}", "--", "npx", "-y", "server")
    address = vibe("mcp", "add", "far", "https://far.example/mcp", "--header", "X-Team=us", "--key-env", "FAR_KEY")
    listed = servers(vibe)
    removed = [vibe("mcp", "remove", name) for name in ("files", "far")]

    assert (command.code, address.code) == (0, 0), command.err + address.err
    assert listed[1:] == [
        {"name": "files", "transport": "stdio", "command": ["npx", "-y", "server"], "env": {"A": "${MINE}"}},
        {
            "name": "far",
            "transport": "http",
            "url": "https://far.example/mcp",
            "headers": {"X-Team": "us"},
            "api_key_env": "FAR_KEY",
        },
    ]
    assert [ended.code for ended in removed] == [0, 0]
    assert (vibe.home / "config.toml").read_text().split() == BEFORE.split()


@pytest.mark.parametrize("address", ["ftp://far.example/mcp", "http://far.example:99999/mcp"])
def test_an_address_of_another_kind_is_not_taken_for_a_command(vibe: VibeCommand, address: str) -> None:
    ended = vibe("mcp", "add", "far", address)

    assert ended.code == 2
    assert f'url: must be an address such as https://host/v1, not "{address}"' in ended.err


def test_a_list_of_servers_that_is_none_is_said(vibe: VibeCommand) -> None:
    vibe.configure("mcp_servers = 3\n")

    ended = vibe("mcp", "add", "one", "--", "true")

    assert (ended.code, "mcp_servers: must be" in ended.err) == (2, True), ended.err


def test_the_last_server_leaves_no_list_behind(vibe: VibeCommand) -> None:
    assert vibe("mcp", "add", "only", "--", "cat").code == 0
    assert vibe("mcp", "remove", "only").code == 0

    assert servers(vibe) == []
    assert vibe("config", "show").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "first", "https://x.example/mcp"), "already"),
        (("add", "a b", "https://x.example/mcp"), "not a server name"),
        (("add", "x", "https://x.example/mcp", "more"), "an address takes no --env"),
        (("add", "x", "--header", "A=b", "--", "cat"), "for a server with an address"),
        (("add", "x", "--env", "A", "--", "cat"), "NAME=VALUE"),
        (("remove", "second"), "it has first"),
        (("import", "nothing.json"), "can't be read"),
    ],
)
def test_what_can_not_be_is_said_and_changes_nothing(vibe: VibeCommand, words: tuple[str, ...], said: str) -> None:
    vibe.configure(BEFORE)

    ended = vibe("mcp", *words)

    assert (ended.code, said in ended.err) == (2, True), ended.err
    assert (vibe.home / "config.toml").read_text() == BEFORE


def test_the_servers_of_another_agents_file_are_taken_over(vibe: VibeCommand) -> None:
    vibe.configure(BEFORE)
    document = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server"], "env": {"A": "${MINE}"}, "cwd": "/x"},
            "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
            "old": {"type": "sse", "url": "https://old.example/sse"},
            "odd": {"command": "${TOOL:-cat}"},
            "first": {"command": "cat"},
            "none": 3,
        }
    }
    (vibe.workdir / ".mcp.json").write_text(json.dumps(document))

    ended = vibe("mcp", "import")

    assert ended.code == 1
    assert [server["name"] for server in servers(vibe)] == ["first", "files", "far", "odd"]
    assert servers(vibe)[1] == {
        "name": "files",
        "transport": "stdio",
        "command": "npx",
        "args": ["-y", "server"],
        "env": {"A": "${MINE}"},
    }
    assert "files added (without cwd)" in ended.out
    assert [line.split()[1] for line in ended.err.splitlines()] == ["old", "first", "none"]
    assert vibe("config", "show").code == 0


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not valid JSON"), ("[]", "lists no servers"), ("{}", "lists no servers")]
)
def test_a_file_that_names_no_servers_is_said_to(vibe: VibeCommand, text: str, said: str) -> None:
    (vibe.workdir / ".mcp.json").write_text(text)

    ended = vibe("mcp", "import")

    assert (ended.code, said in ended.err) == (2, True)


def test_a_project_has_servers_of_its_own(vibe: VibeCommand) -> None:
    ended = vibe("mcp", "add", "here", "--project", "--", "cat")

    assert (ended.code, ".vibe/config.toml" in ended.out) == (0, True)
    assert tomllib.loads((vibe.workdir / ".vibe" / "config.toml").read_text())["mcp_servers"][0]["name"] == "here"


FOREIGN = """\ufeff// as an editor writes it
{
  /* the servers */
  "inputs": [{"id": "token"}],
  "servers": {
    "off": {"command": "cat", "enabled": false},
    "a server": {"command": "${env:TOOL}", "args": ["--port", 8080, "${workspaceFolder}/x, //y",], "env": {"N": 1, "Y": true, "Z": null}},
    "far": {"url": "https://h/mcp?k=${K:-v}", "headers": {"X": "${X}"}},
    "asks": {"command": "cat", "env": {"T": "${input:token}"}},
    "more": {"command": "${userHome}/bin/x"},
  },
}
"""


def test_a_file_as_an_editor_writes_it_is_taken_over(vibe: VibeCommand) -> None:
    (vibe.workdir / "mcp.json").write_text(FOREIGN)

    ended = vibe("mcp", "import", "mcp.json")

    off, one, far, more = servers(vibe)
    assert (off["name"], off["disabled"]) == ("off", True)
    assert one == {
        "name": "a-server",
        "transport": "stdio",
        "command": "${env:TOOL}",
        "args": ["--port", "8080", "${workspaceFolder}/x, //y"],
        "env": {"N": "1", "Y": "true"},
    }
    assert far["url"] == "https://h/mcp?k=${K:-v}"
    assert ended.code == 1
    assert "${input:token}, which only its own editor knows" in ended.err
    assert more["command"] == "${userHome}/bin/x"


EDITOR = """{
  "editor.fontSize": 12,
  "mcp": {"servers": {
    "a b": {"command": "cat"},
    "a-b": {"command": "${workspaceFolder}${/}x"},
    "a  b": {"command": "${userHome}/y"},
    "address": {"url": "${BASE}/mcp", "headers": {"X": "${workspaceFolderBasename}"}},
    "open": {"command": "cat", "args": ["${file}"]},
    "picked": {"command": "${command:python.interpreterPath}"},
    "line": {"url": "https://h/mcp", "headers": {"L": "${lineNumber}"}},
    "other": {"command": "${workspaceFolder:server}/x"},
  }},
}
"""


def test_the_settings_of_an_editor_are_read_and_no_server_takes_the_name_of_another(vibe: VibeCommand) -> None:
    (vibe.workdir / "settings.json").write_text(EDITOR)

    ended = vibe("mcp", "import", "settings.json")

    assert [server["name"] for server in servers(vibe)] == ["a-b-2", "a-b", "a-b-3", "address"]
    assert [line.split()[1] for line in ended.err.splitlines()] == ["open", "picked", "line", "other"]
    assert ended.err.count("which only its own editor knows") == 4
    assert vibe("config", "show").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("npx -y server", "unknown argument '-y': write -- before a command with options of its own"),
        ("https://far.example/mcp --heder A=b", "unknown argument '--heder': did you mean '--header'?"),
    ],
)
def test_options_of_a_command_without_two_dashes_are_one_sentence(vibe: VibeCommand, words: str, said: str) -> None:
    ended = vibe("mcp", "add", "files", *words.split())

    assert (ended.code, ended.out, ended.err) == (2, "", f"vibe: {said}; see `vibe mcp add --help`\n")
