"""Slash commands of the conversation itself: its beginning, end, title, messages and use."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread
from msgspec.structs import replace

from vibe.app.conversation.conversation import TITLE_LENGTH as LONGEST_TITLE
from vibe.app.conversation.conversation import rename
from vibe.app.conversation.session import before_summary, begins_with_summary
from vibe.core.config.paths import VibePaths, in_utf8
from vibe.core.messages import AssistantMessage, UserMessage
from vibe.core.middleware.port import HOST_NOTICE
from vibe.core.told_files import told_parts
from vibe.front.code_blocks import code_blocks
from vibe.front.event_text import counted, one_line
from vibe.front.slash.command import ArgumentChoice, Talk, Typed
from vibe.front.slash.wording import SHOWN_ID, TITLE_LENGTH, sessions_here, setup_line, usage_line, words
from vibe.system.errors import UsageError

CODE = "code"
SESSIONS_SHOWN = 10


async def run_clear(talk: Talk, _typed: Typed) -> None:
    """Go on without what was said."""
    before = talk.conversation.session_id
    await talk.conversation.clear()
    talk.say(f"cleared; session {before[:SHOWN_ID]} is kept")


async def run_compact(talk: Talk, typed: Typed) -> None:
    """Put a summary in place of the conversation so far."""

    async def work() -> None:
        if await talk.conversation.compact(typed.rest):
            talk.say(f"the conversation has {counted(len(talk.conversation.messages), 'message')} now")

    talk.begin(work)


async def run_copy(talk: Talk, typed: Typed) -> None:
    """Copy the last answer or block of code, or an earlier one."""
    first, _, rest = typed.rest.partition(" ")
    number = (rest.strip() if first == CODE else typed.rest) or "1"
    messages = talk.conversation.messages
    if begins_with_summary(messages):
        paths = VibePaths(talk.runtime.host.home)
        earlier = await to_thread.run_sync(before_summary, paths, talk.conversation.session_id)
        messages = [*(earlier.messages if earlier else ()), *messages]
    texts = [one.content.strip() for one in messages if isinstance(one, AssistantMessage) and one.content.strip()]
    what = "answer"
    if first == CODE:
        texts, what = [code for text in texts for code in code_blocks(text)], "block of code"
    if not texts:
        raise UsageError(f"/copy: the agent has given no {what} yet")
    if not number.isdecimal() or not 1 <= int(number) <= len(texts):
        raise UsageError(f"/copy {typed.rest}: say which {what}, 1 for the last; there are {len(texts)}")
    text = texts[-int(number)]
    talk.copy(text)
    talk.say(f"copied {counted(len(text), 'character')}")


async def copy_choices(_talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the word for blocks of code."""
    return () if " " in text else words(CODE)


async def run_cost(talk: Talk, _typed: Typed) -> None:
    """Say what this conversation has used."""
    talk.say(usage_line(talk))


async def run_exit(talk: Talk, _typed: Typed) -> None:
    """Save the conversation and leave."""
    talk.leave()


async def run_rename(talk: Talk, typed: Typed) -> None:
    """Give the session a title."""
    title = " ".join(typed.rest.split())
    if not title:
        raise UsageError("/rename TITLE: say what to call the session")
    if len(title) > LONGEST_TITLE:
        raise UsageError(f"/rename: a title has at most {LONGEST_TITLE} characters, this one {len(title)}: shorten it")
    await rename(talk.conversation, title)
    talk.say(f"the session is called: {title}")


async def run_resume(talk: Talk, typed: Typed) -> None:
    """List the sessions of this folder, or go on with one."""
    if typed.rest:
        await talk.reopen(replace(talk.opening, resume=typed.rest, prompt=""))
        return
    for choice in (await resume_choices(talk, ""))[:SESSIONS_SHOWN]:
        talk.say(f"{choice.value} {choice.about}")


async def resume_choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the sessions by the beginnings of their ids, with their titles."""
    return [
        ArgumentChoice(saved.meta.session_id[:SHOWN_ID], one_line(saved.meta.title, TITLE_LENGTH))
        for saved in await sessions_here(talk)
    ]


async def run_rewind(talk: Talk, typed: Typed) -> None:
    """List the prompts, or go back to before one."""
    prompts = _prompts(talk)
    if not typed.rest:
        for number, (_, text) in enumerate(prompts, start=1):
            talk.say(f"{number}) {text}")
        if not prompts:
            talk.say("there is no prompt to go back to yet")
        return
    if not typed.rest.isdecimal() or not 1 <= int(typed.rest) <= len(prompts):
        raise UsageError(f"/rewind {typed.rest}: say the number of a prompt; /rewind lists them")
    index = prompts[int(typed.rest) - 1][0]
    taken_back = talk.conversation.messages[index].content
    report = await talk.conversation.rewind(index)
    for what, names in (("restored", report.files.restored), ("deleted", report.files.deleted)):
        if names:
            talk.say(f"{what}: {one_line(', '.join(names))}")
    for name, reason in report.files.skipped.items():
        talk.say(f"not restored: {one_line(name)}: {one_line(reason)}")
    for conflict in report.files.conflicts:
        talk.say(f"changed by someone else since: {conflict.path}, kept as {in_utf8(conflict.saved_as)}")
    talk.suggest(told_parts(taken_back)[0])
    talk.say(f"the conversation has {counted(len(talk.conversation.messages), 'message')} now")


async def rewind_choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the numbers of the prompts."""
    return [ArgumentChoice(str(number), text) for number, (_, text) in enumerate(_prompts(talk), start=1)]


def _prompts(talk: Talk) -> list[tuple[int, str]]:
    """Return each prompt of the person, with the index of its message."""
    return [
        (index, one_line(message.content, TITLE_LENGTH))
        for index, message in enumerate(talk.conversation.messages)
        if isinstance(message, UserMessage) and not message.content.startswith(HOST_NOTICE)
    ]


async def run_status(talk: Talk, _typed: Typed) -> None:
    """Say how the conversation stands."""
    conversation, running = talk.conversation, talk.plans.session
    talk.say(f"session {conversation.session_id} {one_line(conversation.session.title, TITLE_LENGTH)}".rstrip())
    talk.say(f"in {conversation.setup.opening.workdir}")
    talk.say(setup_line(talk))
    at_work = ", the agent is at work" if conversation.is_busy else ""
    talk.say(f"{counted(len(conversation.messages), 'message')}{at_work}")
    talk.say(usage_line(talk))
    servers = ", ".join(f"{server.name} {server.status}" for server in conversation.servers.states())
    if servers:
        talk.say(f"MCP servers: {servers}")
    if running is not None:
        talk.say(f"plan {running.plan_id or ''} runs: {one_line(running.plan.goal, TITLE_LENGTH)}; see /plan status")
