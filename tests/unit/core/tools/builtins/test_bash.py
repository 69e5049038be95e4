from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after, sleep
from pydantic import ValidationError

from ipc.sink import MemorySink
from tests.unit.core.tools.builtins.calling import PATH, Caller, make
from tests.unit.core.tools.watching import alive, gone, pid_in
from vibe.core.tools.background import background_commands
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.builtins import bash
from vibe.core.tools.builtins.bash import Bash, BashResult
from vibe.core.tools.builtins.grep import Grep
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.core.tools.builtins.todo import Todo
from vibe.core.tools.builtins.write_file import WriteFile
from vibe.core.tools.errors import ToolArgumentsError, ToolError
from vibe.core.tools.gate import Approvals, Gate
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.verdict import BashVerdict, classify


async def test_it_runs_in_the_workspace_and_a_failure_is_a_result(tmp_path: Path) -> None:
    tool, root = make(Bash), Workspace(root=tmp_path).root
    result = await Caller(root=tmp_path).call(tool, command="pwd; echo oops >&2; exit 4")
    assert (result.stdout, result.stderr, result.returncode) == (f"{root}\n", "oops\n", 4)
    assert tool.format_result(result) == f"{root}\n[stderr]\noops\n[exit code 4]"


async def test_silence_is_said(tmp_path: Path) -> None:
    tool = make(Bash)
    assert tool.format_result(await Caller(root=tmp_path).call(tool, command="true")) == "[no output]"


async def test_programs_are_told_nobody_is_there_and_get_no_secrets(tmp_path: Path) -> None:
    environ = {"PATH": PATH, "HOME": "/h", "MISTRAL_API_KEY": "k", "GITHUB_TOKEN": "t"}
    result = await Caller(root=tmp_path, environ=environ).call(make(Bash), command="env")
    found = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert found["HOME"] == "/h"
    assert (found["CI"], found["NONINTERACTIVE"], found["NO_TTY"], found["TERM"]) == ("true", "1", "1", "dumb")
    assert (found["PAGER"], found["GIT_PAGER"], found["DEBIAN_FRONTEND"]) == ("cat", "cat", "noninteractive")
    assert not {"MISTRAL_API_KEY", "GITHUB_TOKEN"} & set(found)


async def test_long_output_is_cut_and_the_whole_is_named(tmp_path: Path) -> None:
    tool = make(Bash)
    caller = Caller(root=tmp_path, output_dir=tmp_path / "out")
    result = await caller.call(tool, command="seq 100000; seq 9 >&2")
    text = tool.format_result(result)
    assert len(text) < 17_000
    assert text.startswith("1\n2\n")
    assert "99999\n100000\n[stderr]" in text
    (kept,) = result.output_files
    assert f"[the whole output is in {kept}]" in text
    again = await caller.call(make(Bash), command=f"wc -l < {kept}")
    assert again.stdout == "100000\n"


async def test_a_timeout_is_an_error_with_what_was_printed(tmp_path: Path) -> None:
    told = ""
    for seconds in (1, 5, 25):  # a busy machine may not have begun it within the first
        with pytest.raises(ToolError, match=f"stopped after {seconds} s") as stopped:
            await Caller(root=tmp_path).call(make(Bash), command="echo half way; sleep 600", timeout=seconds)
        told = str(stopped.value)
        if "half way" in told:
            break
    assert re.search(r"stopped after \d+ s.*\nhalf way", told)


async def test_a_timeout_in_milliseconds_is_taken_as_such_and_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="after 1 s, as which `timeout` 5000 was taken"):
        await Caller(root=tmp_path).call(make(Bash, max_timeout=1), command="sleep 600", timeout=5000)
    with pytest.raises(ToolError, match="after 4 s, as which `timeout` 4000 was taken"):
        await Caller(root=tmp_path).call(make(Bash), command="sleep 600", timeout=4000)


async def test_the_longest_timeout_is_a_setting(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="after 1 s"):
        await Caller(root=tmp_path).call(make(Bash, max_timeout=1), command="sleep 600", timeout=500)


async def test_output_streams_while_it_runs(tmp_path: Path) -> None:
    caller = Caller(root=tmp_path)
    await caller.call(make(Bash), command="echo one; sleep 0.5; echo two")
    assert "".join(caller.shown) == "one\ntwo\n"


async def test_cancelling_the_call_ends_what_it_started(tmp_path: Path) -> None:
    child = 0
    async with create_task_group() as tasks:
        tasks.start_soon(lambda: Caller(root=tmp_path).call(make(Bash), command="sleep 600 & echo $! > pid; wait"))
        child = await pid_in(tmp_path / "pid")
        tasks.cancel_scope.cancel()
    assert child
    assert not alive(child)


async def test_abandoning_the_call_ends_what_it_started(tmp_path: Path) -> None:
    tool = make(Bash)
    calling = tool.invoke(Caller(root=tmp_path).context(), command="echo $$; sleep 600")
    event = await anext(calling)
    await calling.aclose()
    assert await gone(int(event.message))


async def test_what_asks_a_terminal_does_not_hang(tmp_path: Path) -> None:
    with fail_after(120):
        result = await Caller(root=tmp_path).call(
            make(Bash), command="read -p 'password: ' x </dev/tty; cat; echo done"
        )
    assert result.stdout == "done\n"


async def test_an_empty_command_and_a_timeout_of_zero_are_refused(tmp_path: Path) -> None:
    for arguments in ({"command": ""}, {"command": "ls", "timeout": 0}, {"command": "ls", "shell": "zsh"}):
        with pytest.raises(ToolArgumentsError):
            await Caller(root=tmp_path).call(make(Bash), **arguments)


def test_the_lists_decide_and_can_be_set(tmp_path: Path) -> None:
    def verdict(tool: object, command: str) -> ToolPermission | None:
        assert isinstance(tool, Bash)
        return tool.assess(tool.parse({"command": command}), Workspace(root=tmp_path)).listed

    assert verdict(make(Bash), "git status") is ToolPermission.ALWAYS
    assert verdict(make(Bash), "git status; vim x") is ToolPermission.NEVER
    assert verdict(make(Bash), "npm test") is None
    assert verdict(make(Bash, allowlist=["npm test"]), "npm test -- --watch=false") is ToolPermission.ALWAYS
    assert verdict(make(Bash, denylist=["npm publish"]), "cd x && npm publish") is ToolPermission.NEVER
    for same in ("npm publish *", "npm publish:*", " npm  publish "):
        assert verdict(make(Bash, denylist=[same]), "npm publish --dry-run") is ToolPermission.NEVER


@pytest.mark.parametrize(
    "entry", ["git push*", "Bash(git push:*)", "re:git.*", "*", " ", "cd x; ls", "a && b", "a | b"]
)
def test_an_entry_of_a_list_that_would_match_nothing_is_refused(entry: str) -> None:
    for key in ("allowlist", "denylist", "denylist_standalone"):
        with pytest.raises(ValidationError, match="would match nothing: give the first words of one command"):
            make(Bash, **{key: [entry]})


@pytest.mark.parametrize("entry", ["[", "cut -d|", "a;b", "find . -name *.pyc"])
def test_an_entry_with_an_odd_word_is_taken(entry: str) -> None:
    make(Bash, allowlist=[entry])


def test_a_lasting_yes_covers_each_command_by_its_words(tmp_path: Path) -> None:
    tool, workspace = make(Bash), Workspace(root=tmp_path)
    covers = tool.assess(tool.parse({"command": "npm test && cp 'a b' c"}), workspace).covers
    assert covers == ("npm test *", "cp 'a b' c")
    assert tool.assess(tool.parse({"command": "npm test > $X"}), workspace).covers == ()


@pytest.mark.parametrize("reads_only", [False, True])
@pytest.mark.parametrize("line", ["ls", "npm test", "vim x", "sudo ls", "cat ../other", "for i in *; do cat $i; done"])
def test_a_line_is_classified_once_for_all_that_is_decided_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, reads_only: object
) -> None:
    lines: list[str] = []

    def counted(line: str, *args: Any, **options: Any) -> BashVerdict:
        lines.append(line)
        return classify(line, *args, **options)

    monkeypatch.setattr(bash, "classify", counted)
    tool = make(Bash, reads_only=reads_only)
    Gate(Workspace(root=tmp_path), Approvals(), MemorySink()).judge(tool, tool.parse({"command": line}))
    assert lines == [line]


def test_every_tool_fits_into_the_prompt() -> None:

    for kind in (ReadFile, WriteFile, SearchReplace, Bash, Grep, Todo):
        prompt = kind.get_tool_prompt()
        assert prompt is not None
        assert prompt.startswith(f"{kind.get_name()}:")
        size = len(kind.get_description()) + len(json.dumps(kind.get_parameters())) + len(prompt)
        assert size <= 1_200, kind.get_name()
        assert kind.description


async def test_a_line_that_is_waited_for_is_sent_to_the_background_with_all_the_time_it_needs(tmp_path: Path) -> None:
    async with background_commands() as background:
        caller = Caller(root=tmp_path, background=background)
        assert not background.send_back()
        line = "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3"
        results: list[BashResult] = []

        async def run() -> None:
            results.append(await caller.call(make(Bash), command=line, timeout=1))

        with fail_after(60):
            async with create_task_group() as group:
                group.start_soon(run)
                while not caller.shown:  # noqa: ASYNC110  there is nothing else to wait for
                    await sleep(0.02)
                assert background.send_back()
            assert (results[0].handle, results[0].stdout) == ("bg1", "one\n")
            assert "the user had it run on: runs in the background as bg1" in results[0].note
            assert not background.send_back()
            await sleep(1.1)
            (tmp_path / "go").touch()
            report = await background.report("bg1", wait_seconds=60)
            while report.exit_code is None:
                report = await background.report("bg1", wait_seconds=60)
        assert report.exit_code == 3
