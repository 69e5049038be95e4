"""Slash commands in a real conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread

from tests.fakes.model_server import Reply
from tests.integration.app.conversation.conftest import Rig
from tests.integration.app.conversation.scripted_talk import talking
from vibe.core.messages import AssistantMessage
from vibe.core.session.folder import read_meta
from vibe.front.slash.table import SlashTable
from vibe.system.errors import UsageError, VibeError


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


async def test_help_tells_every_command(rig: Rig) -> None:
    async with talking(rig) as talk:
        talk.keys = ["!COMMAND: run it"]
        told = await talk.do("/help")
        assert await talk.do("/help /cost") == "/cost: show the tokens and cost of this conversation"

    assert told.endswith("!COMMAND: run it")
    assert [line for line in SlashTable() if f"/{line}" not in told] == []


async def test_agent_model_and_approvals_are_told_and_changed(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert "* default: " in await talk.do("/agents")
        assert (await talk.do("/agents plan")).startswith("plan with first")
        assert await talk.do("/model second high") == "plan with second, thinking high, approvals all"
        assert "* second" in await talk.do("/model")
        assert (await talk.do("/approvals edits")).endswith("approvals edits")
        assert "plan" in await talk.values("agents", "pl")
        assert await talk.values("model", "sec") == ["second"]
        assert "first" not in await talk.values("model", "second ")
        assert await talk.values("approvals", "a") == ["ask", "all"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/approvals maybe", "say one of ask, edits, all"),
        ("/model high low", "/model ALIAS high"),
        ("/agents nobody", "nobody"),
        ("/rewind 7", "say the number of a prompt"),
        ("/rename", "say what to call the session"),
        ("/rename " + "x" * 81, "at most 80 characters"),
        ("/config nothing_like_it", "unknown setting"),
        ("/config max_turns few", "max_turns"),
        ("/memory lose it", "/memory [add TEXT | forget ID]"),
        ("/memory add", "/memory [add TEXT | forget ID]"),
        ("/memory forget nothing", "no memory entry 'nothing'"),
        ("/skills none", "unknown skill 'none'"),
        ("/permissions bash", "/permissions TOOL ARGUMENTS"),
        ("/permissions none at all", "/permissions none:"),
        ("/copy", "no answer yet"),
        ("/copy code", "no block of code yet"),
        ("/copy code 0", "no block of code yet"),
        ("/resume nowhere", "nowhere"),
        ("/help copie", "did you mean 'copy'?"),
        ("/clear that", "/clear takes no arguments: leave out 'that'"),
        ("/exit now", "leave out 'now'"),
    ],
)
async def test_wrong_use_is_answered_with_what_is_right(rig: Rig, line: str, expected: str) -> None:
    async with talking(rig) as talk:
        with pytest.raises(VibeError) as raised:
            await talk.do(line)

    assert expected in str(raised.value)
    assert talk.sent == []


async def test_the_conversation_is_cleared_taken_back_and_gone_on_with(rig: Rig) -> None:
    async with talking(rig, "before") as talk:
        first = talk.conversation.session_id
    async with talking(rig, "one", "two") as talk:
        assert await talk.do("/rewind") == "1) prompt 1\n2) prompt 2"
        assert await talk.values("rewind") == ["1", "2"]
        assert (await talk.do("/rewind 2")).endswith("the conversation has 2 messages now")
        assert talk.suggested == "prompt 2"
        assert "is kept" in await talk.do("/clear")
        assert first[:8] in await talk.do("/resume")
        assert talk.conversation.session.title == ""
        assert first[:8] in await talk.values("resume", first[:3])
        await talk.do(f"/resume {first[:8]}")
        assert talk.conversation.session_id == first
        await talk.do("/exit")

    assert talk.is_gone


async def test_without_a_prompt_there_is_nothing_to_go_back_to(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert await talk.do("/rewind") == "there is no prompt to go back to yet"


async def test_a_session_gets_the_title_it_is_given(rig: Rig) -> None:
    async with talking(rig, "one") as talk:
        assert await talk.do("/rename  The long \t way ") == "the session is called: The long way"
        assert "The long way" in await talk.do("/status")
        assert await talk.do("/resume") == "", "it is no other session"
        meta = await to_thread.run_sync(read_meta, talk.conversation.session.folder.path)

    assert meta.title == "The long way"


async def test_the_status_says_how_it_stands(rig: Rig) -> None:
    async with talking(rig, "one") as talk:
        told = await talk.do("/status")
        used = await talk.do("/cost")

    assert f"session {talk.conversation.session_id} prompt 1" in told
    assert str(rig.folder) in told
    assert "default with first" in told
    assert "2 messages" in told
    assert used in told
    assert used.startswith("11 tokens read")


async def test_settings_are_shown_and_changed(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert 'active_model = "first"' in await talk.do("/config")
        assert (await talk.do("/config active_model")).startswith('active_model = "first"  # ')
        assert "/reload" in await talk.do("/config active_model second")
        assert "active_model" in await talk.values("config", "active_m")
        assert talk.conversation.setup.model.key == "first"
        assert "default with second" in await talk.do("/reload")


async def test_notes_are_kept_and_forgotten(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert "no notes yet" in await talk.do("/memory")
        await talk.do("/memory add Tests need a database")
        assert "Tests need a database" in await talk.do("/memory")
        assert await talk.values("memory") == ["add", "forget"]
        (note,) = await talk.values("memory", "forget ")
        assert await talk.do(f"/memory forget {note}") == "forgotten: Tests need a database"


async def test_tools_skills_servers_and_hooks_are_listed(rig: Rig) -> None:
    skill = "---\nname: looking\ndescription: Look closely.\n---\nLook.\n"
    written(rig.host.home / "skills" / "looking", "SKILL.md", skill)
    async with talking(rig) as talk:
        assert any(line.split()[:2] == ["bash", "ask"] for line in (await talk.do("/tools")).splitlines())
        assert await talk.do("/skills") == "looking  /looking  Look closely."
        assert "SKILL.md" in await talk.do("/skills looking")
        assert await talk.values("skills", "look") == ["looking"]
        assert "no MCP servers are configured" in await talk.do("/mcp")
        assert "hooks are off" in await talk.do("/hooks")


async def test_hooks_that_are_on_are_told(rig: Rig) -> None:
    with (rig.host.home / "config.toml").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(f"enable_experimental_hooks = true\n{text}")
    written(rig.host.home, "hooks.toml", '[[hooks]]\nname = "guard"\nevent = "before_tool"\ncommand = "true"\n')
    async with talking(rig) as talk:
        assert await talk.do("/hooks") == "guard before_tool (user): true"


async def test_permissions_are_those_of_the_conversation(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert "nothing is allowed beyond one call" in await talk.do("/permissions")
        assert (await talk.do("/permissions bash touch x")).startswith("allow (")
        await talk.do("/approvals ask")
        assert (await talk.do("/permissions bash touch x")).startswith("ask (")
        talk.conversation.approvals.remember(["bash: touch x"])
        assert (await talk.do("/permissions")).endswith("  bash: touch x")
        assert "bash" in await talk.values("permissions", "ba")


async def test_log_and_transcript_are_told(rig: Rig) -> None:
    async with talking(rig, "one") as talk:
        told = await talk.do("/log")
        transcript = talk.conversation.session.folder.transcript

    assert transcript.is_file()
    assert str(transcript) in told
    assert str(rig.host.home / "logs" / "vibe.log (none so far)") in told


async def test_the_facts_for_a_report_are_told_and_nothing_is_sent(rig: Rig) -> None:
    async with talking(rig) as talk:
        told = await talk.do("/bug")

    assert f"session {talk.conversation.session_id}" in told
    assert "Python 3" in told
    assert told.endswith("nothing was sent")
    assert rig.server.requests == []


async def test_an_answer_is_copied(rig: Rig) -> None:
    async with talking(rig, "one", "two") as talk:
        assert await talk.do("/copy") == "copied 3 characters"
        assert talk.clipboard == "two"
        await talk.do("/copy 2")
        assert talk.clipboard == "one"
        with pytest.raises(UsageError, match="there are 2"):
            await talk.do("/copy 3")


async def test_a_block_of_code_is_copied_as_it_is_to_be_used(rig: Rig) -> None:
    answers = (
        "Run:\n\n- so\n  ```sh\n  echo one\n  ```\n",
        "```\nx = 1\n\ny = 2\n```\nand\n\n~~~\nthree\n~~~",
        "No code.",
    )
    async with talking(rig) as talk:
        for answer in answers:
            await to_thread.run_sync(talk.conversation.session.transcript.append, AssistantMessage(answer))
        copied: list[str] = []
        for line in ("/copy code", "/copy code 2", "/copy code 3"):
            await talk.do(line)
            copied.append(talk.clipboard)
        assert copied == ["three", "x = 1\n\ny = 2", "echo one"]
        assert await talk.values("copy", "") == ["code"]
        with pytest.raises(UsageError, match="which block of code, 1 for the last; there are 3"):
            await talk.do("/copy code 4")


async def test_the_agent_is_asked_for_instructions(rig: Rig) -> None:
    async with talking(rig) as talk:
        rig.server.enqueue(Reply(text="Written."))
        await talk.do("/init in French")

    (prompt,) = talk.sent
    assert str(rig.folder) in prompt
    assert prompt.endswith("Above all: in French")


async def test_prompts_in_files_and_skills_are_commands(rig: Rig) -> None:
    header = "---\ndescription: Look it over.\nargument-hint: [file]\n---\n"
    written(rig.host.home / "commands", "review.md", f"{header}Review $1 for $ARGUMENTS")
    written(rig.host.home / "commands", "plain.md", "Go on.")
    written(rig.host.home / "skills" / "looking", "SKILL.md", "---\nname: looking\ndescription: Look.\n---\nLook.\n")
    async with talking(rig) as talk:
        await talk.refresh()
        assert talk.said == []
        assert talk.commands["review"].line == "/review [file]"
        assert talk.commands["review"].about == "Look it over."
        assert "plain.md" in talk.commands["plain"].about
        assert talk.commands["looking"].about == "Look."
        rig.server.enqueue(Reply(text="Fine."), Reply(text="Seen."))
        await talk.do("/review a.py b.py")
        await talk.do("/looking closely")
        told = [message.content for message in talk.conversation.messages]

    assert told[0] == "Review a.py for a.py b.py"
    assert told[2].startswith("The user started the skill 'looking'.")


async def test_what_is_built_in_wins_then_the_project_the_user_and_skills(rig: Rig) -> None:
    home, project = rig.host.home, rig.folder / ".vibe"
    for folder in (home, project):
        written(folder / "commands", "review.md", f"from {folder.name}")
        written(folder / "commands", "cost.md", "never")
    skill = "---\nname: review\ndescription: Look.\n---\nLook.\n"
    written(home / "skills" / "review", "SKILL.md", skill)
    written(home / "commands", "broken.md", "---\na: [\n---\nGo.")
    written(home / "commands", "empty.md", "")
    async with talking(rig, trust=True) as talk:
        await talk.refresh()
        warned = list(talk.said)
        rig.server.enqueue(Reply(text="Fine."))
        await talk.do("/review")
        assert talk.conversation.messages[0].content == "from .vibe"
        assert "tokens read" in await talk.do("/cost")
        await talk.do("/reload")
        again = [line for line in talk.said if not line.startswith("reloaded")]

    assert sum("/cost is built in" in line for line in warned) == 1
    assert sum("two commands are called" in line for line in warned) == 2
    assert sum("the skill 'review' can't be started" in line for line in warned) == 1
    assert sum("broken.md: 'a' is not valid YAML and is taken as text" in line for line in warned) == 1
    assert sum("empty.md: it has no prompt" in line for line in warned) == 1
    assert len(warned) == 6
    assert [line for line in again if line in warned] == []
    assert "empty" not in talk.commands


async def test_a_projects_commands_are_not_offered_where_it_is_not_trusted(rig: Rig) -> None:
    written(rig.folder / ".vibe" / "commands", "review.md", "from the project")
    async with talking(rig) as talk:
        await talk.refresh()

    assert "review" not in talk.commands


async def test_a_reload_finds_what_was_written_since(rig: Rig) -> None:
    async with talking(rig) as talk:
        await talk.refresh()
        written(rig.host.home / "commands", "later.md", "Go on.")
        await talk.do("/reload")

        assert "later" in talk.commands


async def test_a_plan_that_can_not_be_written_is_said(rig: Rig) -> None:
    async with talking(rig) as talk:
        rig.server.enqueue(*(Reply(text="No.") for _ in range(5)))
        told = await talk.do("/plan Build it")

    assert told.startswith("no plan: ")
    assert not talk.plans.is_taken
