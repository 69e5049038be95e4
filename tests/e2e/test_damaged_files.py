"""Files in vibe's home that a failing disk or an editor damaged: none of them stops work unrelated to it.

Covers ``vibe.system``, ``vibe.core.session``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_prompt import turns

WritePlan = Callable[..., str]

DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "a byte that is no UTF-8": lambda data: data.replace(b'": "', b'": "\xff').replace(b'":"', b'":"\xff'),
    "nesting without an end": lambda _: b'{"source":' + b"[" * 100_000,
    "zeros": lambda data: b"\0" * len(data),
    "half of it": lambda data: data[: len(data) // 2],
}


def kept_files(home: Path) -> Iterator[Path]:
    """Yield the JSON files that runs have left in a home, except the script of the model."""
    for path in sorted(home.rglob("*")):
        if path.suffix in {".json", ".jsonl"} and path.name != "script.json":
            yield path


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_of_earlier_runs_stop_no_new_run(vibe: VibeCommand, write_plan: WritePlan, damage: str) -> None:
    vibe.replay(turns({"text": "fine"}))
    plan = write_plan(command_step("a", "true"))
    assert vibe("-p", "go").code == 0
    assert vibe("plan", "run", plan).code == 0
    (vibe.home / "run").mkdir(exist_ok=True)
    (vibe.home / "run" / "dead.json").write_bytes(next((vibe.home / "run").rglob("publisher.json")).read_bytes())
    (plan_id,) = vibe.plan_ids()
    damaged = list(kept_files(vibe.home))
    for path in damaged:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))

    working = [("-p", "go"), ("plan", "run", plan), ("events", "list"), ("session", "list"), ("plan", "list")]
    asking = [("plan", "status", plan_id), ("plan", "resume", plan_id), ("-c", "-p", "go"), ("memory", "list")]
    ended = {words: vibe(*words) for words in (*working, *asking)}

    assert {path.name for path in damaged} >= {"dead.json", "publisher.json", "meta.json", "messages.jsonl", "run.json"}
    assert [words for words in working if ended[words].code != 0] == []
    said = "\n".join(finished.err for finished in ended.values())
    assert "Traceback" not in said
    assert "internal error" not in said


@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
def test_a_run_whose_description_is_damaged_stays_in_the_list(
    vibe: VibeCommand, write_plan: WritePlan, damage: str
) -> None:
    vibe.replay(turns({"text": "fine"}))
    assert vibe("-p", "go").code == 0
    assert vibe("plan", "run", write_plan(command_step("a", "true"))).code == 0
    listed = vibe("dashboard", "--output", "json").document
    for path in (vibe.home / "run").rglob("publisher.json"):
        path.unlink() if damage == "gone" else path.write_bytes(DAMAGES[damage](path.read_bytes()))

    still = vibe("dashboard", "--output", "json").document

    facts = ("status", "folder", "total", "done")
    assert len(listed["runs"]) == 2
    assert {key: [row.get(name) for name in facts] for key, row in still["runs"].items()} == {
        key: [row.get(name) for name in facts] for key, row in listed["runs"].items()
    }


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize(
    ("file", "command", "code"),
    [
        ("plan.json", "status", 3),
        ("run.json", "review", 3),
        ("journal.jsonl", "retry", 3),
        ("state.json", "list", 0),
        ("lock", "status", 0),
        ("steps/a/worktree.json", "review", 3),
        ("steps/a/output.log", "logs", 0),
    ],
)
def test_only_regular_files_of_a_plan_are_read(
    vibe: VibeCommand, write_plan: WritePlan, file: str, command: str, code: int, kind: str
) -> None:
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "start"]):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *words], cwd=vibe.workdir, check=True)
    plan = write_plan({**command_step("a", "echo x > made"), "workspace": "worktree"})
    assert vibe("plan", "run", plan, "--allow-dirty").code == 0
    (plan_id,) = vibe.plan_ids()
    path = vibe.home / "plans" / plan_id / file
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to(os.devnull)
        case _:
            path.mkdir()

    ended = vibe("plan", command, *([] if command == "list" else [plan_id]), *(["a"] if command == "retry" else []))

    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    if code:
        assert file in ended.err


def test_a_session_whose_meta_data_are_gone_is_continued_with_a_word(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "fine"}, {"text": "on"}, {"text": "end"}))
    assert vibe("-p", "go").code == 0
    (meta,) = vibe.home.glob("logs/session/*/meta.json")
    meta.write_bytes(b"")

    listed, resumed = vibe("session", "list"), vibe("--resume", meta.parent.name, "-p", "and on")

    assert (listed.code, resumed.code) == (0, 0)
    assert "meta.json is damaged" in listed.err
    assert "made again of the messages" in resumed.err
    assert json.loads(meta.read_text())["workspace"] == str(vibe.workdir)
    assert vibe("-c", "-p", "go").err == ""


@pytest.mark.parametrize(("workspace", "told"), [("", True), ("elsewhere", False)])
def test_a_newer_session_that_cannot_be_read_is_passed_over_with_a_word(
    vibe: VibeCommand, workspace: str, *, told: bool
) -> None:
    vibe.replay(turns({"text": "old"}, {"text": "on"}))
    old = vibe("-p", "go", "--output", "json").document["session_id"]
    newer = vibe("-p", "go", "--output", "json").document["session_id"]
    (vibe.home / "logs/session" / newer / "meta.json").write_text(
        json.dumps({"version": 99, "workspace": str(vibe.workdir / workspace)})
    )

    continued = vibe("-c", "-p", "and on", "--output", "json")

    assert continued.document["session_id"] == old
    assert (f"{newer} can't be read" in continued.err) is told
    assert ("an older session is continued" in continued.err) is told


@pytest.mark.parametrize("tail", [b'{"role":"user","content":"cut', b"\0" * 512, b"\xff\n"])
def test_whoever_reads_a_session_with_a_torn_end_hears_of_it(vibe: VibeCommand, tail: bytes) -> None:
    vibe.replay(turns({"text": "fine"}))
    session = vibe("-p", "go", "--output", "json").document["session_id"]
    with (vibe.home / "logs/session" / session / "messages.jsonl").open("ab") as file:
        file.write(tail)

    for words in (("show", session), ("export", session), ("export", session, "--format", "html"), ("fork", session)):
        ended = vibe("session", *words)
        said = f"warning: {len(tail)} bytes at the end are no whole message, and are left out\n"
        assert (ended.code, ended.err) == (0, said), words


def test_a_search_says_which_session_it_could_not_read(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "fine words"}))
    session = vibe("-p", "go", "--output", "json").document["session_id"]
    with (vibe.home / "logs/session" / session / "messages.jsonl").open("ab") as file:
        file.write(b'{"role":"oracle","content":"of a later version"}\n')

    found = vibe("session", "search", "fine")

    assert (found.code, found.out) == (0, "")
    assert f"{session}/messages.jsonl: line 3 is not a message" in found.err


def test_sessions_are_found_by_whatever_links_lead_to_their_folder(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "fine"}))
    session = vibe("-p", "go", "--output", "json").document["session_id"]
    moved = vibe.workdir.rename(vibe.workdir.with_name("moved"))
    vibe.workdir.symlink_to(moved)
    vibe.workdir = moved

    listed = vibe("session", "list", "--here", "--output", "json").document

    assert [one["session_id"] for one in listed] == [session]
