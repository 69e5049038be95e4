from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from vibe.cli.environment import CliEnvironment
from vibe.cli.given import given_settings
from vibe.cli.textual_ui.app import settings_of
from vibe.core.config.loader import GivenSettings
from vibe.system.errors import UsageError


def environment(cwd: Path, given: GivenSettings | None = None) -> CliEnvironment:
    stream = TextIOWrapper(BytesIO(), "utf-8")
    return CliEnvironment(
        home=cwd / "home", cwd=cwd, environ={}, stdin=stream, stdout=stream, stderr=stream, given=given
    )


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("tools.bash.allowlist=['make', 'ls']", ["make", "ls"]),
        ('enabled_tools=["bash"]', ["bash"]),
        ("tools.bash.default_timeout=7", 7),
        ('active_model="first"', "first"),
        ("active_model=first", "first"),
        ("active_model=a=b", "a=b"),
        ("auto_approve=true", True),
        ("models[first].temperature=0.5", 0.5),
        ("tools.bash.description=just text", "just text"),
        ('instructions="say \\"hi\\""', 'say "hi"'),
        ('instructions="say', '"say'),
    ],
)
def test_a_value_is_toml_where_the_type_takes_that_else_text(tmp_path: Path, word: str, value: Any) -> None:
    assert given_settings([("--set", word)], environment(tmp_path)).values == {word.partition("=")[0]: value}


def test_the_last_of_two_values_counts_and_what_is_given_has_names(tmp_path: Path) -> None:
    words = [("--set", "api_timeout=1"), ("--instructions", "a"), ("--set", "api_timeout=2"), ("--instructions", "b")]
    given = given_settings(words, environment(tmp_path))
    assert (given.values, given.instructions) == ({"api_timeout": 2}, "a\n\nb")
    assert given.names == ("--set api_timeout", "--instructions")


def test_a_server_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"mcpServers": {"old": {"type": "sse", "url": "http://x"}}}')
    with pytest.raises(UsageError, match=r"--mcp s.json: server 'old': its transport 'sse' is not supported"):
        given_settings([("--mcp", "s.json")], environment(tmp_path))


def test_the_screen_looks_as_it_is_told_to_this_time(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[ui]\ntheme = "nord"\nmouse = false\n')
    found = settings_of(environment(tmp_path, GivenSettings(values={"ui.theme": "gruvbox", "ui.motion": "no"})))
    assert (found.theme, found.mouse, found.motion) == ("gruvbox", False, True)
