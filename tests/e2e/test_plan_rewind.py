"""``vibe plan rewind``: steps done again on the files they found.

Covers ``vibe.app.plan``, ``vibe.core.session``.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.waiting import until, written
from tests.integration.core.session.repository import content, git, repository


def shell(step_id: str, command: str, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a step whose agent runs a command, and its model's script, which is the same after a rewind."""
    turns = [{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": f"{step_id} done"}]
    return {"id": step_id, "title": f"Step {step_id}", "mode": "code", **fields}, {"turns": turns}


def run(vibe: VibeCommand, write_plan: Any, *steps: tuple[dict[str, Any], dict[str, Any]], code: int = 0) -> str:
    vibe.replay({"agents": {step["id"]: script for step, script in steps if script}})
    plan = write_plan(*(step for step, _ in steps))
    ended = vibe("plan", "run", plan, "--auto-approve", "--output", "json")
    assert ended.code == code, ended.err + ended.out
    return ended.document["plan_id"]


def test_a_step_and_what_depends_on_it_go_back_and_are_done_again(vibe: VibeCommand, write_plan: Any) -> None:
    vibe.workdir.rmdir()
    repository(vibe.workdir, {"a.txt": "start\n", "mine.txt": "mine\n"})
    plan_id = run(
        vibe,
        write_plan,
        shell("first", "echo first >> a.txt"),
        shell("second", "echo second >> a.txt; mkdir -p made; echo new > made/b.txt", depends_on=["first"]),
        shell("aside", "echo aside > c.txt", writes=["c.txt"]),
        (command_step("count", "wc -l < a.txt > lines.txt", depends_on=["second"]), {}),
    )
    assert content(vibe.workdir)["a.txt"] == "start\nfirst\nsecond\n"
    (vibe.workdir / "mine.txt").write_text("changed by me\n")
    (vibe.workdir / "made" / "b.txt").write_text("changed by me, too\n")

    rewound = vibe("plan", "rewind", plan_id, "second")

    assert rewound.code == 0, rewound.err
    files = content(vibe.workdir)
    assert files["a.txt"] == "start\nfirst\n"
    assert (files["mine.txt"], files["c.txt"]) == ("changed by me\n", "aside\n")
    assert not (vibe.workdir / "made").exists()
    assert "lines.txt" not in files
    assert "to run again: second, count" in rewound.out
    kept = next(line for line in rewound.out.splitlines() if line.startswith("made/b.txt was changed elsewhere"))
    assert Path(kept.partition("kept as ")[2]).read_text() == "changed by me, too\n"
    assert git("log", "--oneline", cwd=vibe.workdir).count("\n") == 0

    resumed = vibe("plan", "resume", plan_id, "--auto-approve", "--output", "json")

    assert resumed.code == 0, resumed.err
    assert {step["id"]: step["attempts"] for step in resumed.document["steps"]} == {
        "first": 1,
        "second": 2,
        "aside": 1,
        "count": 2,
    }
    assert content(vibe.workdir)["a.txt"] == "start\nfirst\nsecond\n"
    assert content(vibe.workdir)["lines.txt"].strip() == "3"


def test_a_second_rewind_goes_back_to_the_second_beginning(vibe: VibeCommand, write_plan: Any) -> None:
    plan_id = run(vibe, write_plan, shell("only", "echo x >> a.txt"))
    for _ in range(2):
        assert vibe("plan", "rewind", plan_id, "only").code == 0
        assert not (vibe.workdir / "a.txt").exists()
        (vibe.workdir / "between.txt").write_text("mine")
        assert vibe("plan", "resume", plan_id, "--auto-approve").code == 0
        assert (vibe.workdir / "a.txt").read_text() == "x\n"
    assert vibe("plan", "rewind", plan_id, "only", "--output", "json").document["deleted"] == ["a.txt"]
    assert (vibe.workdir / "between.txt").read_text() == "mine"


def test_a_plan_of_commands_alone_records_nothing(vibe: VibeCommand, write_plan: Any) -> None:
    plan_id = run(vibe, write_plan, (command_step("only", "echo x > a.txt"), {}))

    refused = vibe("plan", "rewind", plan_id, "only")

    assert refused.code == 2
    assert f"vibe plan retry {plan_id} only" in refused.err
    assert refused.err.count("\n") == 1
    assert not (vibe.home / "plans" / plan_id / "files").exists()


def test_without_git_that_is_said_once_and_the_work_goes_on(vibe: VibeCommand, write_plan: Any) -> None:
    tools = vibe.workdir.parent / "tools"
    tools.mkdir()
    for name in ("sh", "bash"):
        (tools / name).symlink_to(f"/bin/{name}")
    vibe.replay({"agents": {"*": shell("x", "echo x >> a.txt")[1]}})
    plan = write_plan(shell("one", "")[0], shell("two", "", depends_on=["one"])[0])
    vibe.environ["PATH"] = str(tools)

    ended = vibe("plan", "run", plan, "--auto-approve", "--output", "streaming")

    assert ended.code == 0, ended.err
    said = [line["message"] for line in ended.lines if line.get("code") == "snapshot.off"]
    assert len(said) == 1
    assert "git is not installed" in said[0]


def test_what_a_step_beside_it_wrote_meanwhile_stays(vibe: VibeCommand, write_plan: Any) -> None:
    meet = "touch {0}.here; while ! [ -e {1}.here ]; do sleep 0.02; done; echo {0} > {0}.txt; sleep 0.2"
    plan_id = run(
        vibe,
        write_plan,
        shell("one", meet.format("one", "two"), writes=["one.*"]),
        shell("two", meet.format("two", "one"), writes=["two.*"]),
    )

    done = vibe("plan", "rewind", plan_id, "one", "--output", "json").document

    assert sorted(done["deleted"]) == ["one.here", "one.txt"]
    assert done["set_aside"] == {}
    assert (vibe.workdir / "two.txt").read_text() == "two\n"


def test_what_a_killed_step_had_done_goes_back_and_is_set_aside(vibe: VibeCommand, write_plan: Any) -> None:
    step, script = shell("slow", "echo half > a.txt; sleep 600")
    vibe.replay({"agents": {"slow": script}})
    process = vibe.start("plan", "run", write_plan(step), "--auto-approve")
    until(lambda: written(vibe.workdir / "a.txt"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (plan_id,) = vibe.plan_ids()

    done = vibe("plan", "rewind", plan_id, "slow", "--output", "json").document

    assert done["deleted"] == ["a.txt"]
    assert Path(done["set_aside"]["a.txt"]).read_text() == "half\n"
    assert not (vibe.workdir / "a.txt").exists()


def test_a_plan_that_runs_is_left_alone(vibe: VibeCommand, write_plan: Any) -> None:
    step, script = shell("slow", "echo half > a.txt; sleep 600")
    vibe.replay({"agents": {"slow": script}})
    vibe.start("plan", "run", write_plan(step), "--auto-approve")
    until(lambda: written(vibe.workdir / "a.txt"))
    (plan_id,) = vibe.plan_ids()

    refused = vibe("plan", "rewind", plan_id, "slow", "--wait", "0.2")

    assert refused.code == 3
    assert "writes in" in refused.err  # the writing step never ends its turn
    assert (vibe.workdir / "a.txt").read_text() == "half\n"


def test_bytes_and_modes_are_those_the_step_found(vibe: VibeCommand, write_plan: Any) -> None:
    vibe.workdir.rmdir()
    repository(vibe.workdir, {"a.txt": "x\n", ".gitattributes": "* text eol=lf\n"})
    for path, text in ((b"a.txt", b"one\r\n"), (b"\xff.txt", b"\xef\xbb\xbftwo\r\n")):
        file = vibe.workdir / os.fsdecode(path)
        file.write_bytes(text)
        file.chmod(0o600)
    (vibe.workdir / "empty").mkdir(mode=0o700)
    plan_id = run(vibe, write_plan, shell("only", "rmdir empty; for f in *.txt; do echo x > $f; chmod 644 $f; done"))

    rewound = vibe("plan", "rewind", plan_id, "only", "--output", "json")

    assert rewound.code == 0, rewound.err
    assert sorted(rewound.document["restored"]) == ["\\xff.txt", "a.txt", "empty"]
    assert (vibe.workdir / "a.txt").read_bytes() == b"one\r\n"
    other = vibe.workdir / os.fsdecode(b"\xff.txt")
    assert other.read_bytes() == b"\xef\xbb\xbftwo\r\n"
    assert [oct(path.stat().st_mode & 0o777) for path in (vibe.workdir / "a.txt", other)] == ["0o600", "0o600"]
    assert (vibe.workdir / "empty").stat().st_mode & 0o777 == 0o700


def test_a_rewind_that_restores_a_part_says_which_not_and_is_no_success(vibe: VibeCommand, write_plan: Any) -> None:
    (vibe.workdir / "huge.bin").write_bytes(bytes(10_000_001))
    plan_id = run(vibe, write_plan, shell("only", "echo x > huge.bin; echo y > a.txt"))

    rewound = vibe("plan", "rewind", plan_id, "only")

    assert rewound.code == 1
    assert "not restored: huge.bin: it could not be read, or was over 10 MB" in rewound.out
    assert not (vibe.workdir / "a.txt").exists()


def test_files_of_a_plan_that_an_earlier_version_recorded_are_left_with_a_sentence(
    vibe: VibeCommand, write_plan: Any
) -> None:
    plan_id = run(vibe, write_plan, shell("one", "echo x > a.txt"))
    files = vibe.home / "plans" / plan_id / "files"
    (files / "history.jsonl").rename(files / "points.jsonl")

    refused = vibe("plan", "rewind", plan_id, "one")

    assert refused.code == 3
    assert "recorded by an earlier version of vibe" in refused.err
    assert (vibe.workdir / "a.txt").exists()
