"""Slash commands in a real conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from tests.fakes.model_server import Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from tests.integration.app.conversation.scripted_talk import ScriptedTalk, talking
from vibe.cli.textual_ui.screens.review_screen import DRAFT_FILE, ReviewScreen, review_changes
from vibe.core.messages import AssistantMessage
from vibe.core.session.folder import read_meta
from vibe.front.review import ReviewDraft
from vibe.front.slash.command import SlashCommand, TypedCommand
from vibe.front.slash.table import ON_SCREEN, SlashTable
from vibe.system.errors import UsageError, VibeError
from vibe.view.view import ANEW


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


async def test_where_plans_can_be_reviewed_that_is_named_when_the_conversation_changed_nothing(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert await talk.do("/diff") == "no file has changed"
        (usage, about), handler = ON_SCREEN["review"], talk.commands["diff"].handler
        talk.commands = SlashTable({"review": SlashCommand(name="review", usage=usage, about=about, handler=handler)})

        assert await talk.do("/diff") == "no file has changed; /review has what plans changed"
        with pytest.raises(UsageError, match="in this conversation; /review has what plans changed"):
            await talk.do("/undo")


async def test_agent_model_and_approvals_are_told_and_changed(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert "* default: " in await talk.do("/agents")
        assert (await talk.do("/agents plan")).startswith("plan with first")
        assert await talk.do("/model second high") == "plan with second, thinking high, approvals all"
        assert "* second" in await talk.do("/model")
        assert (await talk.do("/approvals edits")).endswith("approvals edits")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/approvals maybe", "say one of ask, edits, all"),
        ("/model high low", "/model ALIAS high"),
        ("/agents nobody", "nobody"),
        ("/rewind 7", "say the number of a prompt"),
        ("/rewind 1 both", "say chat or files, or nothing for both"),
        ("/diff 7", "say the number of a prompt"),
        ("/undo", "no file has changed in this conversation"),
        ("/rename", "say what to call the session"),
        ("/rename " + "x" * 81, "at most 80 characters"),
        ("/config nothing_like_it", "no such setting"),
        ("/config max_turns few", "max_turns"),
        ("/memory lose it", "/memory [add TEXT | forget ID]"),
        ("/memory add", "/memory [add TEXT | forget ID]"),
        ("/memory forget nothing", "no memory entry 'nothing'"),
        ("/skills none", "unknown skill 'none'"),
        ("/permissions bash", "/permissions TOOL ARGUMENTS"),
        ("/permissions none at all", "/permissions none:"),
        ("/copy", "no answer to copy yet"),
        ("/copy code", "no block of code to copy yet"),
        ("/copy code 0", "no block of code to copy yet"),
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
    assert talk.prompts == []


async def test_the_conversation_is_cleared_taken_back_and_gone_on_with(rig: Rig) -> None:
    async with talking(rig, "before") as talk:
        first = talk.conversation.session_id
    async with talking(rig, "one", "two") as talk:
        assert await talk.do("/rewind") == "1) prompt 1\n2) prompt 2"
        assert await talk.do("/rewind 2") == 'back to before "prompt 2"'
        assert talk.suggested == "prompt 2"
        assert await talk.do("/clear") == ANEW
        assert first[:8] in await talk.do("/resume")
        assert talk.conversation.session.title == ""
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
        assert await talk.do("/resume") == "no other conversation is saved for this folder"
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
        told = await talk.do("/config")
        assert 'active_model = "first"' in told
        assert "# default" not in told
        assert "more are as by default: /config ui shows those of a group" in told
        assert 'ui.theme = "follow"  # default' in await talk.do("/config ui")
        assert (await talk.do("/config active_model")).startswith('active_model = "first"  # ')
        assert "/reload" in await talk.do("/config active_model second")
        assert talk.conversation.setup.model.key == "first"
        assert "default with second" in await talk.do("/reload")


async def test_notes_are_kept_and_forgotten(rig: Rig) -> None:
    async with talking(rig) as talk:
        assert "no notes yet" in await talk.do("/memory")
        await talk.do("/memory add Tests need a database")
        assert "Tests need a database" in await talk.do("/memory")
        note, *_ = (await talk.do("/memory")).split()
        assert await talk.do(f"/memory forget {note}") == "forgotten: Tests need a database"


async def test_tools_skills_servers_and_hooks_are_listed(rig: Rig) -> None:
    skill = "---\nname: looking\ndescription: Look closely.\n---\nLook.\n"
    written(rig.host.home / "skills" / "looking", "SKILL.md", skill)
    async with talking(rig) as talk:
        assert any(line.split()[:2] == ["bash", "ask"] for line in (await talk.do("/tools")).splitlines())
        assert await talk.do("/skills") == "looking  /looking  Look closely."
        assert "SKILL.md" in await talk.do("/skills looking")
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
        with pytest.raises(UsageError, match="which block of code, 1 for the last; there are 3"):
            await talk.do("/copy code 4")


async def test_the_agent_is_asked_for_instructions(rig: Rig) -> None:
    async with talking(rig) as talk:
        rig.server.enqueue(Reply(text="Written."))
        await talk.do("/init in French")

    (prompt,) = talk.prompts
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


async def test_models_are_chosen_with_their_price_and_how_much_they_think(rig: Rig) -> None:
    async with talking(rig) as talk:
        picker = await talk.picker("model")
        rows = picker.rows(0)
        first, second = (next(row for row in rows if row.title == name) for name in ("first", "second"))
        assert (first.line, first.fact, picker.first) == ("/model first", "$1 / $2", "/model first")
        assert [behind for _, behind in picker.modes] == [" off", " low", " medium", " high", " max"]
        assert picker.modes[picker.mode] == ("off", " off")
        told = await talk.preview("model", rows.index(second), 3)
        await talk.do(f"{second.line}{picker.modes[3][1]}")
        assert talk.conversation.setup.model.key == "second"

    assert [line.split() for line in told.splitlines()[2:5]] == [
        ["context", "128k"],
        ["price", "$1", "in,", "$2", "out", "per", "M", "tok"],
        ["thinking", "high"],
    ]


async def test_a_model_tells_what_it_did_in_this_folder(rig: Rig) -> None:
    async with talking(rig, "one", "two") as talk:
        places = {row.title: place for place, row in enumerate((await talk.picker("model")).rows(0))}
        lines = (await talk.preview("model", places["first"])).splitlines()
        other = await talk.preview("model", places["second"])

    [did] = [line.split(maxsplit=2) for line in lines if line.startswith("did here")]
    assert did[2] == "2 turns · <$0.01"
    assert lines[-1].strip().startswith("first token after ")
    assert "did here" not in other


async def test_agents_are_chosen(rig: Rig) -> None:
    async with talking(rig) as talk:
        lines = {row.line: row.fact for row in (await talk.picker("agents")).rows(0)}
        assert lines["/agents default"] == "now"
        assert "/agents plan" in lines
        assert (await talk.preview("agents")).splitlines()[0] == "default"


async def test_sessions_are_chosen_but_for_the_one_that_is_held_and_are_found_by_what_was_said(rig: Rig) -> None:
    async with talking(rig, "about rivers") as earlier:
        first = earlier.conversation.session_id
    async with talking(rig, "one") as other, talking(rig, "two") as talk:
        picker = await talk.picker("resume")
        rows = {row.line: row for row in picker.rows(0)}
        assert set(rows) == {f"/resume {first}", f"/resume {other.conversation.session_id}"}
        assert rows[f"/resume {other.conversation.session_id}"].fact == "open elsewhere"
        assert rows[f"/resume {first}"].fact == "now"
        assert picker.search is not None
        assert await to_thread.run_sync(picker.search, "ABOUT riv") == [f"/resume {first}"]
        told = await talk.preview("resume", list(rows).index(f"/resume {first}"))

    assert "> prompt 1" in told
    assert "about rivers" in told
    assert str(rig.folder) in told


def writes(path: str, content: str) -> Reply:
    arguments = json.dumps({"path": path, "content": content, "overwrite": True})
    return Reply(tool_calls=(ServedCall(name="write_file", arguments=arguments, id=path),))


@asynccontextmanager
async def changing(rig: Rig) -> AsyncGenerator[ScriptedTalk]:
    """Open a conversation whose second and third prompts changed files, and whose fourth did not."""
    written(rig.folder, "a.txt", "one\ntwo\n")
    read = ServedCall(name="read_file", arguments='{"path": "a.txt"}', id="read")
    replies = (Reply(text="hello"), Reply(tool_calls=(read,)), writes("a.txt", "one\n2\nthree\n"), Reply(text="done"))
    rig.server.enqueue(*replies, writes("b.txt", "new\n"), Reply(text="done"), Reply(text="bye"))
    async with talking(rig) as talk:
        for prompt in ("hi", "change a", "add b", "thanks"):
            await talk.conversation.send(prompt)
        yield talk


async def test_files_go_back_after_a_compaction_and_after_a_rewind(rig: Rig) -> None:
    async with changing(rig) as talk:
        rig.server.enqueue(Reply(text="summary"))
        await talk.do("/compact")
        titles = [row.title for row in (await talk.picker("rewind")).rows(0)]
        assert titles == ["thanks", "add b"], "the others are in the summary"
        everything = await talk.do("/diff")
        undone = await talk.do("/undo")
        with pytest.raises(UsageError, match="/undo: the prompt that changed files is summarised"):
            await talk.do("/undo")

        assert "2 files" in everything
        assert undone.splitlines() == ['back to before "add b" · 1 file restored · the chat goes on', "deleted b.txt"]
        assert (rig.folder / "a.txt").read_text() == "one\n2\nthree\n"

    async with changing(rig) as talk:
        await talk.do("/rewind 4")
        assert "2 files" in await talk.do("/diff")
        await talk.do("/undo")
        await talk.do("/undo")
        assert (rig.folder / "a.txt").read_text() == "one\ntwo\n"
        assert not (rig.folder / "b.txt").exists()
        await talk.do("/clear")
        assert "no file has changed" in await talk.do("/diff"), "what is cleared is of another conversation"


async def test_the_way_back_is_shown_before_it_is_gone(rig: Rig) -> None:
    async with changing(rig) as talk:
        picker = await talk.picker("rewind")
        assert [(row.line, row.title) for row in picker.rows(0)] == [
            ("/rewind 4", "thanks"), ("/rewind 3", "add b"), ("/rewind 2", "change a"), ("/rewind 1", "hi"),
        ]  # fmt: skip
        assert "no file has changed since" in await talk.preview("rewind", 0)
        both = await talk.preview("rewind", 2)
        chat, files = await talk.preview("rewind", 2, 1), await talk.preview("rewind", 2, 2)

    assert both.splitlines()[:2] == ["back to before change a", ""]
    assert both.splitlines()[2:5] == ["2 files go back", "  a.txt  +2 −1", "  b.txt  deleted (new since then)"]  # noqa: RUF001
    assert "12 messages dropped" in both
    assert ("go back" in chat, "messages dropped" in chat) == (False, True)
    assert ("go back" in files, "messages dropped" in files) == (True, False)


async def test_what_is_shown_is_what_goes_back(rig: Rig) -> None:
    async with changing(rig) as talk:
        told = await talk.do("/rewind 2")
        assert told.splitlines()[0] == 'back to before "change a" · 2 files restored'
        assert (len(talk.conversation.messages), talk.suggested) == (2, "change a")

    assert (rig.folder / "a.txt").read_text() == "one\ntwo\n"
    assert not (rig.folder / "b.txt").exists()


async def test_the_chat_alone_goes_back_and_the_files_stay(rig: Rig) -> None:
    async with changing(rig) as talk:
        assert await talk.do("/rewind 2 chat") == 'back to before "change a"'
        assert len(talk.conversation.messages) == 2

    assert (rig.folder / "b.txt").exists()


async def test_files_are_undone_prompt_by_prompt_and_the_agent_is_told(rig: Rig) -> None:
    async with changing(rig) as talk:
        before = len(talk.conversation.messages)
        assert (await talk.picker("undo")).rows(2)[0].line == "/rewind 4"
        assert (await talk.picker("undo")).mode == 2
        first = await talk.do("/undo")
        assert not (rig.folder / "b.txt").exists()
        assert (rig.folder / "a.txt").read_text() == "one\n2\nthree\n"
        second = await talk.do("/undo")
        assert (rig.folder / "a.txt").read_text() == "one\ntwo\n"
        with pytest.raises(UsageError, match="no file has changed"):
            await talk.do("/undo")
        notices = [message.content for message in talk.conversation.messages[before:]]
        assert (await talk.picker("rewind")).rows(0)[0].title == "thanks", "a notice is no prompt"

    assert first == 'back to before "add b" · 1 file restored · the chat goes on\ndeleted b.txt'
    assert second == 'back to before "change a" · 1 file restored · the chat goes on\nrestored a.txt'
    assert [notice.rpartition(": ")[2] for notice in notices] == ["b.txt", "a.txt"]


async def test_a_conversation_is_reviewed_files_go_back_and_comments_come_into_the_line(rig: Rig) -> None:
    async with changing(rig) as talk:
        a, b = ("", "a.txt", 1), ("", "b.txt", 1)
        draft = ReviewDraft(rejected={b: False}, comments={(a, 3): (2, "in words")})
        asked: list[ReviewDraft] = []

        async def later(screen: ReviewScreen) -> bool:
            screen.draft.rejected.update(draft.rejected)
            gone = {(a, 9): (9, "no such line"), (("", "c.txt", 1), 1): (1, "no such file")}
            screen.draft.comments.update(draft.comments | gone)
            raise TimeoutError

        async def ask(screen: ReviewScreen) -> bool:
            asked.append(screen.draft)
            return len(asked) == 1

        async def only_look(_: ReviewScreen) -> bool:
            return False

        await review_changes(only_look, talk, TypedCommand(name="review"))
        assert not (talk.conversation.session.folder.path / DRAFT_FILE).exists(), "who only looks needs no room on disk"
        with pytest.raises(TimeoutError):
            await review_changes(later, talk, TypedCommand(name="review"))
        await review_changes(ask, talk, TypedCommand(name="review"))
        assert asked == [draft], "what was set was kept when the review was left, however that was"
        assert talk.said == [
            "line 9 of a.txt is not among the changes any more; your comment was: no such line",
            "line 1 of c.txt is not among the changes any more; your comment was: no such file",
            "deleted b.txt",
        ], "a comment that can't be shown is not sent unseen"
        assert (rig.folder / "a.txt").read_text() == "one\n2\nthree\n", "only what was given back went back"
        assert not (rig.folder / "b.txt").exists()
        assert talk.suggested.endswith("a.txt, lines 2 to 3:\n> 2\n> three\nin words")
        await review_changes(ask, talk, TypedCommand(name="review"))
        assert asked[1:] == [ReviewDraft()], "what was sent is not kept"
        await talk.do("/undo")
        with pytest.raises(UsageError, match="no file has changed in this conversation"):
            await review_changes(ask, talk, TypedCommand(name="review", rest="chat"))

    assert len(asked) == 2


async def test_the_changes_of_a_conversation_are_one_diff(rig: Rig) -> None:
    async with changing(rig) as talk:
        every, last = await talk.do("/diff"), await talk.do("/diff 3")
        assert await talk.do("/diff 4") == "no file has changed"

    assert every.splitlines()[0] == "diff 2 files  +3 −1"  # noqa: RUF001
    assert "-two\n+2\n+three" in every
    assert last == "diff 1 file  +1 −0\n--- /dev/null\n+++ b.txt\n@@ -0,0 +1 @@\n+new"  # noqa: RUF001


async def test_what_fills_the_context_is_told(rig: Rig) -> None:
    async with changing(rig) as talk:
        head, *parts, free = (await talk.do("/context")).splitlines()

    assert head.startswith("about ")
    assert "of 128k tok fill the context" in head
    assert {" ".join(line.split()[:-2]) for line in parts} >= {"answers and calls", "what was told", "results: write"}
    assert free.split()[0] == "free"
