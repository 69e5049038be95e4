"""The valid content of a hooks.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe.core.hooks.runner import Hook, HookEvent, HookFile, event_named, load_hooks
from vibe.system.errors import ConfigError


def load(tmp_path: Path, text: str) -> tuple[Hook, ...]:
    path = tmp_path / "hooks.toml"
    path.write_text(text)
    return load_hooks([HookFile(path=path, label="hooks.toml", project_dir=tmp_path)])


def test_a_hook_with_everything(tmp_path: Path) -> None:
    (hook,) = load(
        tmp_path,
        '[[hooks]]\nname = "guard"\nevent = "before_tool"\nmatcher = "bash"\ncommand = "./guard"\ntimeout = 5\n'
        'retries = 1\ndescription = "looks at commands"\n',
    )
    assert (hook.name, hook.event, hook.command) == ("guard", HookEvent.BEFORE_TOOL, "./guard")
    assert (hook.timeout_seconds, hook.retries, hook.project_dir) == (5, 1, tmp_path)
    assert hook.is_about("bash")
    assert not hook.is_about("grep")


def test_a_hook_with_the_least(tmp_path: Path) -> None:
    (hook,) = load(tmp_path, '[[hooks]]\ntype = "post_agent_turn"\ncommand = "true"\n')
    assert (hook.name, hook.timeout_seconds, hook.retries) == ("post_agent_turn 1 of hooks.toml", 30, 3)
    assert hook.is_about("anything")


def test_hooks_may_stand_under_their_event(tmp_path: Path) -> None:
    hooks = load(
        tmp_path,
        '[[hooks.PreToolUse]]\nmatcher = "Edit|Write"\ncommand = "a"\n[[hooks.stop]]\ncommand = "b"\n',
    )
    assert [(hook.event, hook.command) for hook in hooks] == [
        (HookEvent.BEFORE_TOOL, "a"),
        (HookEvent.POST_AGENT_TURN, "b"),
    ]
    assert [hooks[0].is_about(tool) for tool in ("search_replace", "write_file", "read_file")] == [True, True, False]


@pytest.mark.parametrize(
    ("matcher", "tool", "expected"),
    [
        ("", "bash", True),
        ("*", "bash", True),
        ("Bash", "bash", True),
        ("read", "read_file", True),
        ("mcp__docs__find", "docs_find", True),
        ("docs_*", "docs_find", True),
        ("re:(read|write)_file", "write_file", True),
        ("re:(read|write)_file", "bash", False),
    ],
)
def test_matchers(tmp_path: Path, matcher: str, tool: str, expected: bool) -> None:  # noqa: FBT001  a table
    (hook,) = load(tmp_path, f'[[hooks]]\nevent = "PreToolUse"\nmatcher = "{matcher}"\ncommand = "x"\n')
    assert hook.is_about(tool) is expected


@pytest.mark.parametrize(
    ("word", "event"),
    [
        ("before_tool", HookEvent.BEFORE_TOOL),
        ("PreToolUse", HookEvent.BEFORE_TOOL),
        ("PRETOOLUSE", HookEvent.BEFORE_TOOL),
        ("pre-tool-use", HookEvent.BEFORE_TOOL),
        ("PostToolUse", HookEvent.AFTER_TOOL),
        ("AfterTool", HookEvent.AFTER_TOOL),
        ("Stop", HookEvent.POST_AGENT_TURN),
        ("POST_AGENT_TURN", HookEvent.POST_AGENT_TURN),
        ("SessionStart", None),
    ],
)
def test_events_in_any_spelling(word: str, event: HookEvent | None) -> None:
    assert event_named(word) is event


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ('[[hooks]]\nevent = "lunch"\ncommand = "x"\n', "hooks.toml:2", "'lunch'"),
        ('[[hooks]]\ncommand = "x"\n', "hooks.toml:1", "is missing, give one of before_tool"),
        ('[[hooks]]\nevent = "Stop"\n', "hooks.toml:1", "hooks.command: is missing"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\ncomand = "y"\n', "hooks.toml:4", "is unknown, a hook has"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\ntimeout = 0\n', "hooks.toml:4", "more than 0"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nretries = 9\n', "hooks.toml:4", "at most 3"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nretries = true\n', "hooks.toml:4", "must be a whole number"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x\\u0000"\n', "hooks.toml:3", "give the shell command"),
        ('[[hooks]]\nevent = "Stop"\ncommand = 1\n', "hooks.toml:3", "must be a string"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nmatcher = "re:("\n', "hooks.toml:4", "regular expression"),
        ('[[hooks]]\nevent = "Stop"\ncommand = "x"\nstrict = "no"\n', "hooks.toml:4", "must be true or false"),
        (
            '[[hooks]]\nevent = "Stop"\ncommand = "x"\nmatch = "a"\nmatcher = "b"\n',
            "hooks.toml:4",
            "give one of the two",
        ),
        ("hooks = [3]\n", "hooks.toml:1", "hooks[0]: must be a table"),
        ("hooks = 3\n", "hooks.toml:1", "must be a list of tables"),
        ("[other]\n", "hooks.toml:1", "is unknown, write hooks"),
        ("[[hooks]\n", "hooks.toml:1", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, where: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(where)
    assert problem in str(caught.value)


def test_no_file_means_no_hooks(tmp_path: Path) -> None:
    assert load_hooks([HookFile(path=tmp_path / "hooks.toml", label="hooks.toml")]) == ()


def test_the_words_of_mistral_vibe_are_understood(tmp_path: Path) -> None:
    (found,) = load(
        tmp_path, '[[hooks]]\nname = "g"\ntype = "pre_tool"\nmatch = "bash"\nstrict = false\ncommand = "x"\n'
    )
    assert (found.event, found.strict) == (HookEvent.BEFORE_TOOL, False)
    assert found.is_about("bash")
    assert not found.is_about("grep")
