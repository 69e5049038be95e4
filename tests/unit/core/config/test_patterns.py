"""The names that a pattern selects."""

from __future__ import annotations

import pytest

from vibe.core.config.patterns import NamePatterns, canonical_tool_name
from vibe.system.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("bash", ["bash"], ["bash2", "Bash", "my_bash"]),
        ("web_*", ["web_fetch", "web_"], ["web", "my_web_fetch"]),
        ("[gm]rep", ["grep", "mrep"], ["rep"]),
        ("re:^serena_.*$", ["serena_", "serena_find"], ["my_serena_find"]),
        ("re:read|write", ["read", "write"], ["read_file", "rewrite"]),
        ("re:", [""], ["bash"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    patterns = NamePatterns([pattern])
    assert [name for name in [*matching, *others] if patterns.matches(name)] == matching


def test_no_pattern_matches_nothing() -> None:
    assert not NamePatterns([]).matches("bash")


def test_patterns_that_match_nothing_are_told() -> None:
    patterns = NamePatterns(["bash", "bsh", "web_*", "x_*", "re:gr.p"])
    assert patterns.unmatched(iter(["bash", "grep", "web_fetch"])) == ("bsh", "x_*")


def test_a_wrong_regular_expression_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        NamePatterns(["bash", "re:*"], where="--enabled-tools", key="enabled_tools")
    assert str(caught.value) == (
        "--enabled-tools: enabled_tools: 're:*' is not a valid regular expression (nothing to repeat at position 0), "
        "correct it"
    )


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("read", "read_file"),
        ("edit", "search_replace"),
        ("write", "write_file"),
        ("read_file", "read_file"),
        ("bash", "bash"),
        ("re*", "re*"),
        ("re:read", "re:read"),
    ],
)
def test_tool_names_of_others_become_ours(name: str, ours: str) -> None:
    assert canonical_tool_name(name) == ours


def test_a_regular_expression_takes_no_longer_than_the_name_is_long() -> None:
    hard = NamePatterns(["re:(a+)+b", "re:(a|aa)+$"])
    assert not hard.matches("a" * 60 + "!")
    assert hard.matches("a" * 60)


def test_what_only_python_matches_still_works() -> None:
    patterns = NamePatterns([r"re:(?!mcp_)\w+"])
    assert patterns.matches("bash")
    assert not patterns.matches("mcp_x")
