"""Several vibes of every kind at work in one folder: they write in turn, and nothing is lost.

Covers ``vibe.core.session``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SERVED, VIBE, VibeCommand, command_step
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until

pytestmark = pytest.mark.xdist_group("acp")

ADD = "x=$(cat n.txt); sleep 0.2; echo $((x+1)) > n.txt"
"""A command that loses what others write meanwhile."""
HOLD = "touch ../held; while [ ! -e ../go ]; do sleep 0.02; done"
WAITING = "which writes in this folder"


def obey(request: Received) -> Reply:
    """Run the lines of the last prompt, one in each turn, and answer with the result of the last one."""
    messages: list[dict[str, Any]] = request.body["messages"]
    prompt = max(index for index, one in enumerate(messages) if one["role"] == "user")
    text = messages[prompt]["content"]
    lines = str(text).partition("do:")[2].strip().split("\n")
    done = [one for one in messages[prompt:] if one["role"] == "tool"]
    if len(done) == len(lines):
        return Reply(text=f"All is done: {done[-1]['content']}")
    arguments = json.dumps({"command": lines[len(done)]})
    return Reply(tool_calls=(ServedCall(name="bash", arguments=arguments, id=f"call{len(messages)}"),))


@pytest.fixture
def server(vibe: VibeCommand, server: ModelServer) -> ModelServer:
    server.responder = obey
    vibe.configure(SERVED.format(api_base=server.api_base) + "\n[sandbox]\nmode = 'off'\n")
    (vibe.workdir / "n.txt").write_text("0\n")
    subprocess.run(["git", "init", "-q"], cwd=vibe.workdir, check=True)
    return server


def do(*lines: str) -> str:
    return "do: " + "\n".join(lines)


def count(vibe: VibeCommand) -> int:
    return int((vibe.workdir / "n.txt").read_text() or "-1")


def holding(vibe: VibeCommand, *words: str) -> subprocess.Popen[bytes]:
    """Start a run that writes until a file ``go`` exists beside its folder."""
    process = vibe.start("--auto-approve", *words, "-p", do(HOLD))
    until((vibe.workdir.parent / "held").exists)
    return process


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.usefixtures("server")
def test_two_screens_a_prompt_an_editor_and_a_caller_write_in_one_folder_in_turn(
    vibe: VibeCommand, tmp_path: Path
) -> None:
    from mcp import StdioServerParameters  # noqa: PLC0415  slow to load, and few tests need it

    from tests.fakes.acp_client import editing  # noqa: PLC0415  as above
    from tests.fakes.mcp_client import connected  # noqa: PLC0415  as above

    environ, cwd = vibe.variables(), vibe.workdir
    program = StdioServerParameters(
        command=str(VIBE), args=["mcp", "serve", "--auto-approve"], env=environ, cwd=str(cwd)
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        Tmux(tmp_path / "a", columns=100, rows=30) as one,
        Tmux(tmp_path / "b", columns=100, rows=30) as other,
        editing([str(VIBE.with_name("vibe-acp"))], environ, cwd, files=False, terminal=False) as edited,
        connected(program) as served,
    ):
        first, second = edited.new(cwd), edited.new(cwd)
        for screen in (one, other):
            screen.start([VIBE, "--auto-approve"], cwd=cwd, env=environ)
        for session in (first, second):
            edited.do(edited.conn.set_session_mode, session_id=session, mode_id="auto-approve")
        called = served.start("call_vibe", prompt=do(ADD, ADD), cwd=str(cwd))
        prompts = [edited.asking(session, do(ADD, ADD)) for session in (first, second)]
        alone = vibe.start("--auto-approve", "-p", do(ADD, ADD))
        for screen in (one, other):
            screen.wait_for("> Ask")
            screen.type(do(ADD))
        assert ended(alone)[0] == 0
        assert [prompt.result(120).stop_reason for prompt in prompts] == ["end_turn", "end_turn"]
        assert called.result(120).structured_content["status"] == "completed"
        for screen in (one, other):
            screen.wait_for("All is done")
        # all of them are still open and idle
        assert vibe("--auto-approve", "-p", do(ADD)).code == 0
        for screen in (one, other):
            screen.press("C-d")
            screen.wait_for("EXIT 0")

    assert count(vibe) == 11


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("executor", ["local", "process"])
def test_two_plans_in_one_folder_take_turns_whatever_their_steps_are(
    vibe: VibeCommand, write_plan: Callable[..., str], executor: str
) -> None:
    agent = {"id": "a", "title": "Add", "mode": "code", "prompt": do(ADD, ADD), "verify": [ADD]}
    plan = write_plan(
        agent, command_step("c", ADD, verify=[ADD], depends_on=["a"]), command_step("d", "true", depends_on=["c"])
    )

    plans = [vibe.start("plan", "run", plan, "--auto-approve", "--executor", executor) for _ in range(2)]

    assert [ended(one)[0] for one in plans] == [0, 0]
    assert count(vibe) == 10


@pytest.mark.usefixtures("server")
def test_who_comes_while_another_writes_is_told_for_whom_it_waits(vibe: VibeCommand) -> None:
    holder = holding(vibe)

    waiting = vibe.start("--auto-approve", "-p", do(ADD))
    line = next(line for line in iter(waiting.stderr.readline, b"") if b"waiting" in line)  # pyright: ignore[reportOptionalMemberAccess]
    (vibe.workdir.parent / "go").touch()

    assert f"(pid {holder.pid}, since " in line.decode()
    assert WAITING in line.decode()
    assert (ended(holder)[0], ended(waiting)[0], count(vibe)) == (0, 0, 1)


@pytest.mark.usefixtures("server")
def test_a_call_that_waited_in_vain_is_not_done_and_no_success(vibe: VibeCommand) -> None:
    holder = holding(vibe)

    code, out, err = ended(vibe.start("--auto-approve", "--wait", "0.2", "-p", do(ADD)))
    (vibe.workdir.parent / "go").touch()
    ended(holder)

    assert (code, count(vibe)) == (5, 0), err
    assert f"(pid {holder.pid}" in out  # the model read it
    assert "was not run: conversation" in err
    again = vibe("--auto-approve", "-p", do("true", ADD))
    assert (again.code, count(vibe)) == (0, 1)


@pytest.mark.usefixtures("server")
def test_a_plan_that_waited_in_vain_pauses_and_goes_on_later(
    vibe: VibeCommand, write_plan: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe.core.session.write_turn.PATIENCE_SECONDS", 0.2)
    holder = holding(vibe)

    paused = vibe("plan", "run", write_plan(command_step("c", ADD)), "--auto-approve")
    (vibe.workdir.parent / "go").touch()
    ended(holder)

    assert (paused.code != 0, count(vibe)) == (True, 0)
    assert f"(pid {holder.pid}, since " in paused.out + paused.err
    assert vibe("plan", "resume", vibe.plan_ids()[0]).code == 0
    assert count(vibe) == 1


@pytest.mark.usefixtures("server")
def test_what_waits_is_interrupted_and_a_killed_holder_holds_nothing(vibe: VibeCommand) -> None:
    holder = holding(vibe)

    waiting = vibe.start("--auto-approve", "-p", do(ADD))
    next(line for line in iter(waiting.stderr.readline, b"") if b"waiting" in line)  # pyright: ignore[reportOptionalMemberAccess]
    waiting.send_signal(signal.SIGINT)
    assert ended(waiting)[0] == 130
    limited = vibe("--auto-approve", "--time-limit", "0.5", "-p", do(ADD))
    assert (limited.code != 0, count(vibe)) == (True, 0)
    os.kill(holder.pid, signal.SIGKILL)
    assert vibe("--auto-approve", "-p", do(ADD)).code == 0
    assert count(vibe) == 1
    (vibe.workdir.parent / "go").touch()


@pytest.mark.usefixtures("server")
def test_a_vibe_that_an_agent_starts_writes_in_the_turn_of_its_call(vibe: VibeCommand) -> None:
    inner = f"SERVED_KEY=k vibe --auto-approve -p '{do(ADD)}'"

    ran = vibe("--auto-approve", "-p", do(inner, f"{inner} & {inner} & wait"))

    assert (ran.code, count(vibe)) == (0, 3), ran.out


@pytest.mark.usefixtures("server")
def test_a_session_is_rewound_beside_an_idle_neighbour_and_waits_for_one_that_writes(vibe: VibeCommand) -> None:
    assert vibe("--auto-approve", "-p", do("echo mine > mine.txt")).code == 0
    session = vibe("session", "list", "--output", "json").document[0]["session_id"]
    holder = holding(vibe)

    refused = vibe("session", "rewind", session, "0", "--files", "--wait", "0.1")
    assert (refused.code, f"(pid {holder.pid}, since " in refused.err) == (3, True)
    assert (vibe.workdir / "mine.txt").exists()
    (vibe.workdir.parent / "go").touch()
    assert ended(holder)[0] == 0
    rewound = vibe("session", "rewind", session, "0", "--files")
    assert (rewound.code, rewound.err) == (0, "")
    assert not (vibe.workdir / "mine.txt").exists()


@pytest.mark.usefixtures("server")
def test_of_sessions_that_wrote_in_turn_a_rewind_gives_back_only_ones_own(vibe: VibeCommand) -> None:
    first = vibe.start("--auto-approve", "-p", do("echo 1 > mine1.txt", HOLD, "echo 2 > mine2.txt"), "--output", "json")
    until((vibe.workdir.parent / "held").exists)
    second = vibe.start("--auto-approve", "-p", do("echo theirs > theirs.txt; echo 5 > n.txt"))
    next(line for line in iter(second.stderr.readline, b"") if b"waiting" in line)  # pyright: ignore[reportOptionalMemberAccess]
    (vibe.workdir.parent / "go").touch()
    assert ended(second)[0] == 0
    code, out, _ = ended(first)
    assert code == 0

    rewound = vibe("session", "rewind", json.loads(out)["session_id"], "0", "--files", "--output", "json").document

    assert sorted(rewound["deleted"]) == ["mine1.txt", "mine2.txt"]
    assert (rewound["restored"], rewound["conflicts"]) == ([], [])
    assert (vibe.workdir / "theirs.txt").read_text() == "theirs\n"  # written between two calls of the first run
    assert count(vibe) == 5
