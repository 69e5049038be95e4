"""Input and output of ``vibe -p`` beyond a prompt and an answer: files, and a time limit.

Covers ``vibe.app.conversation``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand, snapshot
from tests.e2e.test_prompt import WRITE, turns
from tests.e2e.test_subagents import a_long_time, agents, delegate, running_with, subagent

LOOK = {"name": "grep", "arguments": {"pattern": "x"}}
TOUCH = {"name": "bash", "arguments": {"command": "touch up"}}


def asleep(seconds: str, **more: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": f"echo up > up; exec sleep {seconds}", **more}}


def test_the_prompt_may_stand_in_a_file(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "hello"}))
    (vibe.workdir / "ask.md").write_bytes(b"\xef\xbb\xbfSay h\xc3\xa9llo.\n\n")

    for words in (("--prompt-file", "ask.md"), ("-p", "--prompt-file", str(vibe.workdir / "ask.md"))):
        events = vibe(*words, "--output", "streaming").lines
        said = [event["text"] for event in events if event["type"] == "user.message"]
        assert said == ["Say héllo."]
        assert events[-1]["result"] == "hello"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-p", "hi", "--prompt-file", "ask.md"), "can't be combined"),
        (("--prompt-file", "ask.md", "hi"), "can't be combined"),
        (("-p", "-", "--prompt-file", "ask.md"), "can't be combined"),
        (("--prompt-file", "none.md"), "--prompt-file none.md: can't be read (No such file or directory)"),
        (("--prompt-file", "."), "--prompt-file .: can't be read"),
        (("--prompt-file", "empty.md"), "it is empty"),
        (("--prompt-file", "/dev/zero"), "longer than 1,000,000 bytes"),
        (("-p", "hi", "--output-dir", "ask.md"), "ask.md: this is a file; name a folder"),
        (("-p", "hi", "--time-limit", "0"), "argument --time-limit: must be a number above 0, not '0'"),
        (("-p", "hi", "--time-limit", "inf"), "must be a number above 0, not 'inf'"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(vibe: VibeCommand, words: tuple[str, ...], says: str) -> None:
    vibe.replay(turns({"text": "never"}))
    (vibe.workdir / "ask.md").write_text("hi")
    (vibe.workdir / "empty.md").write_text(" \n")

    ended = vibe(*words)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended.err
    assert says in ended.err


def test_the_output_folder_holds_record_events_and_conversation(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "writing", "tool_calls": [WRITE]}, {"text": "done"}))

    ended = vibe("--yolo", "--output", "streaming", "--output-dir", "out/deep", "-p", "go")

    *events, record = ended.lines
    folder = vibe.workdir / "out" / "deep"
    assert sorted(path.name for path in folder.iterdir()) == ["events.jsonl", "messages.jsonl", "result.json"]
    assert json.loads((folder / "result.json").read_text()) == record
    assert [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()] == events
    session = vibe.home / "logs" / "session" / record["session_id"]
    assert (folder / "messages.jsonl").read_bytes() == (session / "messages.jsonl").read_bytes()


def test_the_output_folder_holds_this_run_or_nothing(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "first"}))
    folder = vibe.workdir / "out"
    assert vibe("--output-dir", "out", "-p", "one").code == 0
    (folder / "mine.txt").write_text("mine")
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "not allowed"}))

    assert vibe("--output-dir", "out", "-p", "two").code == 5
    record = json.loads((folder / "result.json").read_text())
    assert (record["outcome"], record["exit_code"]) == ("blocked", 5)

    assert vibe("--output-dir", "out", "--model", "no-such-model", "-p", "three").code == 2
    assert snapshot(folder) == {"mine.txt": b"mine"}


def test_an_output_folder_that_cannot_be_written_is_told_before_any_work(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "never"}))
    (vibe.workdir / "out" / "result.json").mkdir(parents=True)
    (vibe.workdir / "file").write_text("")

    for folder in ("out", "file/below"):
        ended = vibe("--output-dir", folder, "-p", "go")
        assert (ended.code, ended.out, ended.err.count("\n")) == (3, "", 1), ended.err
        assert f"{folder}: can't be written" in ended.err
    assert not (vibe.home / "logs" / "session").exists()


def test_a_folder_that_fills_up_costs_the_exit_code_and_not_the_answer(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [{"name": "bash", "arguments": {"command": "rm -r out"}}]}, {"text": "answer"}))

    ended = vibe("--yolo", "--output-dir", "out", "-p", "go")

    assert (ended.code, ended.out, ended.err.count("\n")) == (3, "answer\n", 1), ended.err
    assert "--output-dir" in ended.err


def cut_off(vibe: VibeCommand, limits: tuple[float, ...] = (0.5, 2.5, 10, 40)) -> tuple[float, Finished]:
    """Run until a time limit ends the run in its command, and return the limit and the result.

    If a busy machine has not reached the command within one limit, the next one is tried.
    """
    for limit in limits:
        ended = vibe("--yolo", "--time-limit", str(limit), "--output", "json", "-p", "go")
        if (vibe.workdir / "up").exists():
            return limit, ended
    raise AssertionError("it never came to the command in time")


@pytest.mark.parametrize("where", ["model", "command", "background", "subagent"])
def test_a_time_limit_ends_the_run_with_a_record_and_nothing_left(vibe: VibeCommand, where: str) -> None:
    seconds = a_long_time()
    waiting: dict[str, Any] = {"text": "slow", "delay_seconds": 600}
    main: dict[str, list[dict[str, Any]]] = {
        "model": [{"tool_calls": [TOUCH]}, waiting],
        "command": [{"tool_calls": [LOOK, asleep(seconds)]}],
        "background": [{"tool_calls": [asleep(seconds, background=True)]}, waiting],
        "subagent": [{"tool_calls": [delegate("go", agent="helper")]}],
    }
    vibe.replay(agents(main=main[where], helper=[{"tool_calls": [asleep(seconds)]}]))
    subagent(vibe, "helper", 'safety = "neutral"')

    limit, ended = cut_off(vibe)

    record = ended.document
    assert ended.code == 4, ended.err
    assert (record["outcome"], record["exit_code"], record["reason"]) == ("limit", 4, "timeout")
    assert record["detail"] == f"the time limit of {limit:g} s is reached"
    assert record["duration_s"] >= limit
    assert not running_with(seconds)
    assert unanswered(vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl") == set()


def test_a_run_cut_by_its_time_limit_can_be_gone_on_with(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [asleep(a_long_time())]}))
    assert cut_off(vibe)[1].code == 4
    vibe.replay(turns({"text": "never"}, {"text": "went on"}))

    ended = vibe("--yolo", "--continue", "-p", "go on")

    assert (ended.code, ended.out) == (0, "went on\n"), ended.err


def test_a_time_limit_that_is_not_reached_changes_nothing(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "quick"}))

    ended = vibe("--time-limit", "600", "-p", "go")

    assert (ended.code, ended.out, ended.err) == (0, "quick\n", "")


def unanswered(transcript: Path) -> set[str]:
    """Return the ids of the calls in a saved conversation that have no result."""
    messages = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert messages[0]["role"] == "user"
    called = {call["id"] for message in messages for call in message.get("tool_calls", ())}
    return called - {message["tool_call_id"] for message in messages if message["role"] == "tool"}


def test_files_that_a_prompt_mentions_are_shown_to_the_model(vibe: VibeCommand, tmp_path: Path) -> None:
    vibe.replay(turns({"text": "seen"}))
    (vibe.workdir / "src").mkdir()
    (vibe.workdir / "src" / "a.py").write_text("first = 1\n")
    (vibe.workdir / "two words.md").write_text("second\n")
    (vibe.workdir / "long.txt").write_text("x" * 100_000)
    (vibe.workdir / "image.bin").write_bytes(b"\0\1\2" * 100)
    (vibe.workdir / ".env").write_text("KEY=hush-hush\n")
    (tmp_path / "outside.txt").write_text("not for you\n")
    (vibe.workdir / "link").symlink_to(tmp_path / "outside.txt")
    words = '@src/a.py, @"two words.md" (me@src/a.py) @.env @link @../outside.txt @image.bin @src @none @long.txt.'

    record = vibe("--output", "json", "-p", words).document

    told = vibe("session", "export", record["session_id"], "--format", "json").document["messages"][0]["content"]
    prompt, *files = told.split("\n\n<file ")
    assert prompt == words
    assert [file.splitlines()[0] for file in files] == ['path="src/a.py">', 'path="two words.md">', 'path="long.txt">']
    assert files[0] == 'path="src/a.py">\nfirst = 1\n\n</file>'
    assert files[2].endswith("\n[cut here: read_file shows the rest]\n</file>")
    assert 60_000 < len(told) < 65_000


def test_of_a_file_that_is_mentioned_with_lines_only_these_are_shown(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "seen"}))
    (vibe.workdir / "a b.py").write_text("".join(f"line {number}\n" for number in range(1, 100_000)))
    (vibe.workdir / "c.py").write_text("one\ntwo\nthree")
    (vibe.workdir / "c.py#L2").write_text("a file of that name")
    (vibe.workdir / ".env").write_text("KEY=hush-hush\n")
    shown = {
        "a b.py#L50000-50001": "line 50000\nline 50001",
        "a b.py#L7": "line 7",
        "a b.py#L3:4": "line 3\nline 4",
        "c.py#2-L9": "two\nthree",
        "c.py#L0-1": "one",
        "c.py#L2": "a file of that name",
    }
    words = " ".join(
        f'@"{name}"' for name in (*shown, "c.py#L9", "c.py#L3-2", ".env#L1", "../c.py#L1", "none#L1", "c.py#Lx")
    )

    record = vibe("--output", "json", "-p", words).document

    told = vibe("session", "export", record["session_id"], "--format", "json").document["messages"][0]["content"]
    assert told.split("\n\n<file ")[1:] == [f'path="{name}">\n{text}\n</file>' for name, text in shown.items()]


def test_files_the_agent_may_not_read_are_not_shown_either(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "seen"}))
    settings = (vibe.home / "config.toml").read_text()
    vibe.configure(f'{settings}\n[tools.read_file]\ndenylist = ["plans/*"]\n')
    (vibe.workdir / "plans").mkdir()
    (vibe.workdir / "plans" / "a.md").write_text("not for you\n")

    record = vibe("--output", "json", "-p", "read @plans/a.md").document

    told = vibe("session", "export", record["session_id"], "--format", "json").document["messages"][0]["content"]
    assert told == "read @plans/a.md"
