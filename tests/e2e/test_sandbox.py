"""Covers ``vibe.shell.sandbox``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a sandbox for Linux only")


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command, **more}}]}


def results(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["status"], line["content"]) for line in lines if line["type"] == "tool.result"]


def run(
    vibe: VibeCommand, *calls: dict[str, Any], settings: str = "", words: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    vibe.replay({"agents": {"main": {"turns": [*calls, {"text": "done"}]}}})
    config = vibe.home / "config.toml"
    config.write_text(f"{config.read_text()}\n{settings}")
    ended = vibe("--auto-approve", "--output", "streaming", *words, "-p", "go")
    return results(ended.lines)


def test_an_agent_can_not_write_outside_the_workspace_and_reads_why(vibe: VibeCommand) -> None:
    status, content = run(vibe, bash("touch ../outside"))[0]

    assert status == "ok"
    assert not (vibe.workdir.parent / "outside").exists()
    assert "[exit code 1]" in content
    assert "the sandbox" in content
    assert "[sandbox] writable" in content


def test_what_it_writes_inside_is_there(vibe: VibeCommand) -> None:
    assert run(vibe, bash("echo hi > inside && cat inside")) == [("ok", "hi")]
    assert (vibe.workdir / "inside").read_text() == "hi\n"


def test_settings_that_a_command_makes_count_for_nothing(vibe: VibeCommand) -> None:
    hook = '[[hooks]]\nname = "h"\nevent = "post_agent_turn"\ncommand = "touch ran"\n'
    ((_, said),) = run(vibe, bash(f"mkdir -p .vibe && echo '{hook}' > .vibe/hooks.toml"), words=("--trust",))

    assert ".vibe" in said
    assert not list(vibe.workdir.glob(".vibe/*"))
    assert run(vibe, words=("--trust",)) == []
    assert not (vibe.workdir / "ran").exists()

    ((_, said),) = run(vibe, bash("echo obey > AGENTS.md"))
    assert "[AGENTS.md decides what runs later, so commands can't make it: it is AGENTS.md-" in said
    assert not (vibe.workdir / "AGENTS.md").exists()
    assert [path.read_text() for path in vibe.workdir.glob("AGENTS.md-*")] == ["obey\n"]

    subprocess.run(["git", "init", "-q", "."], cwd=vibe.workdir, check=True)
    ((_, said),) = run(vibe, bash("cp -r .git evil && echo ../evil > .git/commondir"))
    assert "[commondir decides what runs later" in said
    assert not (vibe.workdir / ".git" / "commondir").exists()

    (vibe.workdir / ".vibe").mkdir()
    assert run(vibe, bash("ls -d .vibe")) == [("ok", ".vibe")]
    assert (vibe.workdir / ".vibe").is_dir()


def test_a_check_can_not_leave_settings_behind(vibe: VibeCommand) -> None:
    plan = {"version": 1, "goal": "g", "steps": [{"id": "s", "title": "S", "mode": "run", "command": "true",
            "verify": ["mkdir -p .vibe && ! (echo x > .vibe/hooks.toml); echo x > AGENTS.md"]}]}  # fmt: skip
    (vibe.workdir / "plan.json").write_text(json.dumps(plan))

    ended = vibe("plan", "run", "plan.json")
    assert ended.code == 0, ended.err
    assert not (vibe.workdir / ".vibe" / "hooks.toml").exists()
    assert not (vibe.workdir / "AGENTS.md").exists()
    assert len(list(vibe.workdir.glob("AGENTS.md-*"))) == 1


def test_a_setting_opens_a_folder_and_off_opens_everything(vibe: VibeCommand) -> None:
    shared = vibe.workdir.parent / "shared"
    shared.mkdir()
    line = bash("touch ../shared/x ../other")
    run(vibe, line, settings=f'[sandbox]\nwritable = ["{shared}"]\n')
    assert (shared / "x").exists()
    assert not (vibe.workdir.parent / "other").exists()

    run(vibe, line, settings='[sandbox]\nmode = "off"\n')
    assert (vibe.workdir.parent / "other").exists()


def test_a_folder_of_the_settings_that_leads_out_of_the_workspace_by_a_link_is_refused(vibe: VibeCommand) -> None:
    config, outside = vibe.home / "config.toml", vibe.workdir.parent / "outside"
    outside.mkdir()
    (vibe.workdir / "out").symlink_to(outside)
    vibe.replay({"agents": {"main": {"turns": [{"text": "done"}]}}})
    config.write_text(f'{config.read_text()}\n[sandbox]\nwritable = ["{vibe.workdir}/out"]\n')
    ended = vibe("-p", "go")
    assert (ended.code, ended.out) == (2, "")
    why = "leads out of the workspace by a link, which a command may have made: name where it leads, or remove the link"
    assert f"sandbox.writable: '{vibe.workdir}/out' {why}" in ended.err

    settings = f'[sandbox]\nwritable = ["{outside}"]\n'
    assert run(vibe, bash("echo hi > out/new"), settings=settings)[0][0] == "ok"
    assert (outside / "new").read_text() == "hi\n"


def test_secrets_are_neither_files_nor_variables(vibe: VibeCommand) -> None:
    home = vibe.workdir.parent / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("SECRET-key")
    vibe.environ |= {"HOME": str(home), "MISTRAL_API_KEY": "SECRET-variable"}

    content = "".join(
        text
        for _, text in run(
            vibe, bash(f"cat ~/.ssh/*; env; cat {vibe.home}/config.toml; tr '\\0' ' ' < /proc/$PPID/environ")
        )
    )

    assert f"HOME={home}\n" in content, "the command ran"
    assert "SECRET" not in content
    assert "active_model" not in content


def test_leaving_the_sandbox_takes_a_person_even_with_auto_approve(vibe: VibeCommand) -> None:
    status, content = run(vibe, bash("touch ../outside", unconfined=True))[0]

    assert status == "denied"
    assert "outside the sandbox" in content
    assert not (vibe.workdir.parent / "outside").exists()


def test_sudo_takes_a_person_even_with_auto_approve(vibe: VibeCommand) -> None:
    status, content = run(vibe, bash("echo x; sudo true"))[0]

    assert status == "denied"
    assert "sudo" in content


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_commits_inside_but_hooks_can_not_be_planted(vibe: VibeCommand) -> None:
    outcome = run(
        vibe,
        bash("git init -q . && git config user.name me && git config user.email me@example.com"),
        bash("echo hi > a && git add a && git commit -qm one && git log --oneline | wc -l"),
        bash("echo evil > .git/hooks/pre-commit"),
    )

    assert outcome[1] == ("ok", "1")
    assert "Read-only" in outcome[2][1]


def test_checks_of_a_plan_are_confined_and_its_own_commands_are_not(vibe: VibeCommand, write_plan: Any) -> None:
    plan = write_plan({
        "id": "a",
        "title": "A",
        "mode": "run",
        "command": "touch ../by-command",
        "verify": ["touch ../by-check"],
    })

    ended = vibe("plan", "run", plan)

    assert ended.code == 1
    assert (vibe.workdir.parent / "by-command").exists()
    assert not (vibe.workdir.parent / "by-check").exists()


def test_where_it_is_required_a_plans_own_commands_are_confined(vibe: VibeCommand, write_plan: Any) -> None:
    vibe.configure('[sandbox]\nmode = "required"\n')

    plan = write_plan({"id": "a", "title": "A", "mode": "run", "command": "touch inside ../by-command"})

    assert vibe("plan", "run", plan).code == 1
    assert (vibe.workdir / "inside").exists()
    assert not (vibe.workdir.parent / "by-command").exists()


def test_the_outputs_of_earlier_commands_can_be_read(vibe: VibeCommand) -> None:
    def kept(content: str) -> str:
        return content.rsplit("the whole output is in ", 1)[1].split("]", 1)[0]

    first = run(vibe, bash("seq 100000"))[0][1]
    path = Path(kept(first))
    assert path.is_file()
    assert path.is_relative_to(vibe.home)


@pytest.mark.parametrize(("mode", "said"), [("auto", 1), ("off", 0)])
def test_a_run_says_once_that_no_sandbox_works_here(
    vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch, mode: str, said: int
) -> None:
    def none(_backends: object, _environ: object) -> tuple[None, str]:
        return None, "the kernel has neither"

    monkeypatch.setattr("vibe.shell.sandbox.choose._first_that_works", none)
    vibe.replay({"agents": {"main": {"turns": [bash("touch a"), bash("touch b"), {"text": "done"}]}}})
    vibe.configure(f'{(vibe.home / "config.toml").read_text()}\n[sandbox]\nmode = "{mode}"\n')
    (vibe.workdir / "plan.json").write_text(
        json.dumps({"version": 1, "goal": "g", "steps": [{"id": "main", "title": "M", "mode": "code"}]})
    )

    for words in (("-p", "go"), ("plan", "run", "plan.json")):
        ended = vibe(*words, "--auto-approve", "--output", "json")

        assert ended.code == 0
        told = [text for text in ended.document["warnings"] if "without a sandbox" in text]
        assert (
            told
            == ["commands run without a sandbox because none works here (the kernel has neither): see `vibe doctor`"]
            * said
        )
        assert ended.err.count("without a sandbox") == said
