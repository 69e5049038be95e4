from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vibe.core.config.models import McpServerConfig, McpTransport
from vibe.core.tools.mcp.client import ServerSettingError, endpoint_of, launch_of, shown_url

HERE = Path("/srv/my place")
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/home/me", "MISTRAL_API_KEY": "secret", "CITY": "Paris", "KEY": "k"}


def stdio(**fields: Any) -> McpServerConfig:
    return McpServerConfig(name="s", transport=McpTransport.STDIO, **fields)


def http(**fields: Any) -> McpServerConfig:
    return McpServerConfig(name="s", transport=McpTransport.HTTP, url="https://h/mcp", **fields)


@pytest.mark.parametrize("command", ["sh -c 'a b'", ("sh", "-c", "a b")], ids=["string", "list"])
def test_a_command_is_a_string_or_a_list(command: str | tuple[str, ...], tmp_path: Path) -> None:
    launch = launch_of(stdio(command=command, args=("c d",)), ENVIRON, tmp_path)

    assert Path(launch.argv[0]).name == "sh"
    assert launch.argv[1:] == ("-c", "a b", "c d")


def test_a_server_gets_no_variable_that_nobody_named(tmp_path: Path) -> None:
    launch = launch_of(stdio(command="sh", env={"PLACE": "in ${CITY}", "HOME": "/other"}), ENVIRON, tmp_path)

    assert launch.environ == {"PATH": ENVIRON["PATH"], "HOME": "/other", "PLACE": "in Paris"}


def test_a_relative_program_is_looked_for_in_the_workspace(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "serve"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    assert launch_of(stdio(command="./bin/serve"), ENVIRON, tmp_path).argv == (str(program),)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": "no-such-command"}, "there is no command 'no-such-command'"),
        ({"command": "./no/such"}, "there is no command './no/such'"),
        ({"command": "sh 'open"}, "can't be split into words"),
        ({"command": ("",)}, "there is no command ''"),
        ({"command": "sh", "env": {"A": "${NOT_SET}"}}, "needs the environment variable NOT_SET for env.A"),
    ],
)
def test_what_keeps_a_server_from_being_started_is_told(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ServerSettingError, match=r"mcp_servers\[s\]") as raised:
        launch_of(stdio(**fields), ENVIRON, tmp_path)

    assert words in str(raised.value)


def test_a_key_goes_into_its_header() -> None:
    assert endpoint_of(http(api_key_env="KEY"), ENVIRON, HERE).headers == {"Authorization": "Bearer k"}
    custom = http(api_key_env="KEY", api_key_header="X-Key", api_key_format="{token}!", headers={"A": "${CITY}"})
    assert endpoint_of(custom, ENVIRON, HERE).headers == {"A": "Paris", "X-Key": "k!"}


def test_a_header_that_is_given_wins_over_the_key() -> None:
    assert endpoint_of(http(api_key_env="KEY", headers={"authorization": "x"}), ENVIRON, HERE).headers == {
        "authorization": "x"
    }


def test_a_key_that_is_not_set_is_told_by_its_name() -> None:
    with pytest.raises(ServerSettingError, match="needs the environment variable OTHER: set it"):
        endpoint_of(http(api_key_env="OTHER"), ENVIRON, HERE)


def test_an_address_is_shown_without_its_secrets() -> None:
    assert shown_url("https://user:pass@host:8/mcp?key=1#x") == "https://host:8/mcp"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${workspaceFolder}/x", "/srv/my place/x"),
        ("${workspaceRoot}", "/srv/my place"),
        ("${cwd}", "/srv/my place"),
        ("${workspaceFolderBasename}!", "my place!"),
        ("${userHome}${/}bin${pathSeparator}x", "/home/me/bin/x"),
        ("${NONE:-${x}", "${x"),
        ("${input:x} ${env:CITY}", "${input:x} Paris"),
    ],
)
def test_a_variable_of_editors_is_expanded_in_every_field(text: str, told: str) -> None:
    far = endpoint_of(http(headers={"X": text}), ENVIRON, HERE)
    near = launch_of(stdio(command="sh", args=(text,), env={"X": text}), ENVIRON, HERE)

    assert (far.headers["X"], near.argv[1], near.environ["X"]) == (told, told, told)


@pytest.mark.parametrize("url", ["${BASE}/mcp", "${env:BASE}/mcp", "${NONE:-https://far}/mcp", "https://far/mcp\n"])
def test_an_address_may_begin_with_a_variable(url: str) -> None:
    config = http().model_copy(update={"url": url})

    assert endpoint_of(config, {**ENVIRON, "BASE": "https://far"}, HERE).url == "https://far/mcp"
    with pytest.raises(ServerSettingError, match="begins with http:// or https://"):
        endpoint_of(config.model_copy(update={"url": "${CITY}/mcp"}), ENVIRON, HERE)
    with pytest.raises(ServerSettingError, match=r"not an address .*correct it"):
        endpoint_of(config.model_copy(update={"url": "http://[::"}), ENVIRON, HERE)
    assert shown_url("http://[::") == "an invalid address"


def test_a_line_break_at_the_end_of_a_header_is_left_out() -> None:
    environ = {**ENVIRON, "KEY": "k\n", "TEAM": "us\r\n"}

    assert endpoint_of(http(api_key_env="KEY", headers={"X-Team": "${TEAM}"}), environ, HERE).headers == {
        "Authorization": "Bearer k",
        "X-Team": "us",
    }
