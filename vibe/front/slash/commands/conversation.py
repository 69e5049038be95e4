"""Slash commands about the conversation itself: start, end, title, messages and usage."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import chain

from anyio import to_thread
from msgspec.structs import replace

from vibe.app.conversation.conversation import TITLE_LENGTH as LONGEST_TITLE, rename
from vibe.app.conversation.session import before_summary, begins_with_summary
from vibe.core.config.paths import VibePaths
from vibe.core.llm.tokens import estimate_messages
from vibe.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from vibe.core.session.folder import SavedSession, SessionLoader, Transcript
from vibe.front.cells import Line
from vibe.front.code_blocks import code_blocks
from vibe.front.picker import Picker, PickRow, titled, wrapped
from vibe.front.slash.command import Talk, TypedCommand
from vibe.front.slash.wording import SHOWN_ID, TITLE_LENGTH, setup_line
from vibe.system.errors import UsageError
from vibe.system.files import is_locked, text_of
from vibe.system.plain_text import counted, one_line
from vibe.view.agent_view import VERBS
from vibe.view.figures import ago, dollars, short
from vibe.view.view import ANEW

CODE = "code"
SESSIONS_SHOWN = 10
QUOTE_LENGTH = 400
LAST_SAID = 3
"""Messages of a session shown in its preview."""
NAME_CELLS = 32
BAR = 60
"""Cells of a bar that stands for the whole context."""
BESIDES = "instructions and tools"


async def run_clear(talk: Talk, _typed: TypedCommand) -> None:
    """Continue with an empty conversation."""
    await talk.conversation.clear()
    talk.say(ANEW)


async def run_compact(talk: Talk, typed: TypedCommand) -> None:
    """Replace the conversation so far with a summary."""
    talk.begin(talk.conversation.compact, typed.rest)


async def run_copy(talk: Talk, typed: TypedCommand) -> None:
    """Copy the last answer or code block, or an earlier one."""
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
        raise UsageError(f"/copy: no {what} to copy yet")
    if not number.isdecimal() or not 1 <= int(number) <= len(texts):
        raise UsageError(f"/copy {typed.rest}: say which {what}, 1 for the last; there are {len(texts)}")
    text = texts[-int(number)]
    talk.copy(text)
    talk.say(f"copied {counted(len(text), 'character')}")


async def run_cost(talk: Talk, _typed: TypedCommand) -> None:
    """Say what this conversation has used."""
    talk.say(_usage_line(talk))


async def run_exit(talk: Talk, _typed: TypedCommand) -> None:
    """Save the conversation and leave."""
    talk.leave()


async def run_rename(talk: Talk, typed: TypedCommand) -> None:
    """Change the session's title."""
    title = " ".join(typed.rest.split())
    if not title:
        raise UsageError("/rename TITLE: say what to call the session")
    if len(title) > LONGEST_TITLE:
        raise UsageError(f"/rename: a title has at most {LONGEST_TITLE} characters, this one {len(title)}: shorten it")
    await rename(talk.conversation, title)
    talk.say(f"the session is called: {title}")


async def run_resume(talk: Talk, typed: TypedCommand) -> None:
    """List this folder's sessions, or resume one."""
    if typed.rest:
        await talk.reopen(replace(talk.opening, resume=typed.rest, prompt=""))
        return
    here = [saved for saved in await _other_sessions(talk) if saved.is_of(talk.opening.workdir)]
    shown = [
        f"{one.meta.session_id[:SHOWN_ID]} {one_line(one.meta.title, TITLE_LENGTH)}" for one in here[:SESSIONS_SHOWN]
    ]
    for line in shown or ["no other conversation is saved for this folder"]:
        talk.say(line)


async def resume_picker(talk: Talk) -> Picker:
    """Return a picker of sessions to resume, those of this folder first; search covers their messages too."""
    sessions = {f"/resume {saved.meta.session_id}": saved for saved in await _other_sessions(talk)}
    rows = await to_thread.run_sync(lambda: {line: _session_row(line, saved) for line, saved in sessions.items()})
    here = [row for line, row in rows.items() if sessions[line].is_of(talk.opening.workdir)]
    every = list(rows.values())

    def preview(row: PickRow, _mode: int) -> list[Line]:
        saved = sessions[row.line]
        meta = saved.meta
        cost = "" if meta.cost_usd is None else f", {dollars(meta.cost_usd)}"
        spent = f"{short(meta.usage.total_tokens)} tok{cost}"
        facts = [("folder", one_line(meta.workspace)), ("model", one_line(meta.model)), ("total", spent)]
        recent = [one for one in Transcript.peek(saved.folder.transcript).messages if not isinstance(one, ToolMessage)]
        texts = [
            ("> " * isinstance(one, UserMessage) + one_line(one.content, QUOTE_LENGTH)) for one in recent[-LAST_SAID:]
        ]
        return [*titled(row.title, facts), *chain.from_iterable([[], *wrapped(text, most=3)] for text in texts if text)]

    return Picker(
        title="Sessions",
        rows=lambda mode: every if mode else here,
        preview=preview,
        search=lambda text: [line for line, saved in sessions.items() if _says(saved, text)],
        modes=[("this folder", ""), ("all folders", "")],
        mode=0 if here else 1,
        enter="go on with it",
    )


def _session_row(line: str, saved: SavedSession) -> PickRow:
    fact = "open elsewhere" if is_locked(saved.folder.lock) else ago(saved.updated, time.time())
    title = one_line(saved.meta.title, TITLE_LENGTH) or "(no title)"
    return PickRow(line, title, fact, words=saved.meta.workspace)


def _says(saved: SavedSession, text: str) -> bool:
    """Return whether a session's transcript contains a text, ignoring case; reads the file."""
    needle = json.dumps(text.strip(), ensure_ascii=False)[1:-1].lower()
    return needle in text_of(saved.folder.transcript).lower()


async def run_context(talk: Talk, _typed: TypedCommand) -> None:
    """Say what fills the context: the provider's last count, and estimates per kind of message."""
    messages, limit = talk.conversation.messages, talk.conversation.setup.model.context_size
    parts = Counter[str]()
    for place, message in enumerate(messages):
        parts[_part(message)] += estimate_messages([message])
        if isinstance(message, AssistantMessage) and message.usage is not None and message.usage.prompt_tokens:
            parts[BESIDES] = max(0, message.usage.prompt_tokens - estimate_messages(messages[:place]))
    used = parts.total()
    lines = [f"about {short(used)} of {short(limit)} tok fill the context · {used / limit:.0%}"]
    for name, tokens in parts.most_common():
        bar = "■" * max(1, round(BAR * tokens / limit))
        lines.append(f"  {one_line(name, NAME_CELLS):<{NAME_CELLS}} {short(tokens):>6}  {bar}")
    lines.append(f"  {'free':<{NAME_CELLS}} {short(max(0, limit - used)):>6}  /compact makes more room")
    talk.say("\n".join(lines))


def _part(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"results: {VERBS.get(message.name, message.name)}"
    return "answers and calls" if isinstance(message, AssistantMessage) else "what was told"


async def run_status(talk: Talk, _typed: TypedCommand) -> None:
    """Say how the conversation stands."""
    conversation, running = talk.conversation, talk.plans.session
    talk.say(f"session {conversation.session_id} {one_line(conversation.session.title, TITLE_LENGTH)}".rstrip())
    talk.say(f"in {conversation.setup.opening.workdir}")
    talk.say(setup_line(talk))
    at_work = ", the agent is at work" if conversation.is_busy else ""
    talk.say(f"{counted(len(conversation.messages), 'message')}{at_work}")
    talk.say(_usage_line(talk))
    servers = ", ".join(f"{server.name} {server.status}" for server in conversation.servers.states())
    if servers:
        talk.say(f"MCP servers: {servers}")
    if running is not None:
        talk.say(f"plan {running.plan_id or ''} runs: {one_line(running.plan.goal, TITLE_LENGTH)}; see /plan status")


async def _other_sessions(talk: Talk) -> list[SavedSession]:
    """Return the saved sessions except the conversation's own, the newest first."""
    listing = await to_thread.run_sync(SessionLoader(VibePaths(talk.runtime.host.home).sessions).all)
    return [saved for saved in listing.sessions if saved.meta.session_id != talk.conversation.session_id]


def _usage_line(talk: Talk) -> str:
    """Return the tokens, calls and price that the conversation has used."""
    account = talk.conversation.account
    price = "at an unknown price" if account.cost_usd is None else f"${account.cost_usd:.4f}"
    usage = account.usage
    return (
        f"{counted(usage.prompt_tokens, 'token')} read ({usage.cached_tokens:,} cached), "
        f"{counted(usage.completion_tokens, 'token')} written in {counted(usage.calls, 'call')}, {price}"
    )
