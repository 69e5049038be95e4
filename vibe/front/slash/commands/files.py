"""Slash commands about the agent's changes to files: view them, or go back to before them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from anyio import to_thread

from vibe.app.conversation.conversation import BusyError
from vibe.core.messages import UserMessage
from vibe.core.middleware.port import HOST_NOTICE
from vibe.core.session.restoring import FileBack
from vibe.core.told_files import split_files
from vibe.core.tools.edits import FileDiff, file_diff
from vibe.front.cells import Line
from vibe.front.listings import restored_lines
from vibe.front.picker import Picker, PickRow, wrapped
from vibe.front.slash.command import Talk, TypedCommand
from vibe.front.slash.wording import TITLE_LENGTH
from vibe.system.errors import UsageError
from vibe.system.plain_text import counted, one_line, plus_minus
from vibe.view.figures import ago
from vibe.view.view import back_to

NAME_CELLS = 32
REWINDS = (("chat and files", ""), ("chat only", " chat"), ("files only", " files"))
CHAT_ONLY, FILES_ONLY = 1, 2


async def run_rewind(talk: Talk, typed: TypedCommand) -> None:
    """List the prompts, or go back to before one."""
    prompts = _prompts(talk)
    if not typed.rest:
        for number, (_, text) in enumerate(prompts, start=1):
            talk.say(f"{number}) {text}")
        if not prompts:
            talk.say("there is no prompt to go back to yet")
        return
    number, blank, what = typed.rest.partition(" ")
    modes = [behind for _, behind in REWINDS]
    if blank + what not in modes:
        raise UsageError(f"/rewind {typed.rest}: behind the number, say chat or files, or nothing for both")
    await _go_back(talk, _prompt_meant(talk, number, "rewind"), modes.index(blank + what))


async def rewind_picker(talk: Talk, mode: int = 0) -> Picker | None:
    """Return a picker of prompts to go back to before, showing what would happen to the files."""
    prompts = _prompts(talk)
    now, asked_at = time.time(), talk.asked_at
    rows = [
        PickRow(f"/rewind {number}", text, ago(asked_at[index], now) if index in asked_at else "")
        for number, (index, text) in enumerate(prompts, start=1)
    ]

    def preview(row: PickRow, mode: int) -> list[Line]:
        index = prompts[rows.index(row)][0]
        lines: list[Line] = [[("back to before ", "muted"), (row.title, "bold")], []]
        if mode != CHAT_ONLY:
            lines += _files_lines(going_back(talk, index))
        if mode != FILES_ONLY:
            dropped = counted(len(talk.conversation.messages) - index, "message")
            lines += [[], *wrapped(f"{dropped} dropped; the prompt comes back into the line", "muted")]
        return lines

    if not rows:
        return None
    return Picker(
        title="Rewind",
        rows=lambda _: rows[::-1],
        preview=preview,
        is_previewed=True,
        modes=REWINDS,
        mode=mode,
        enter="go back",
    )


def _files_lines(files: Sequence[tuple[FileBack, FileDiff]]) -> list[Line]:
    if not files:
        return [[("no file has changed since", "muted")]]
    width = min(max(len(file.path) for file, _ in files), NAME_CELLS)
    lines: list[Line] = [[(f"{counted(len(files), 'file')} go{'es' * (len(files) == 1)} back", "")]]
    for file, diff in files:
        is_new = file.before is None
        what = "deleted (new since then)" if is_new else plus_minus([diff])
        name = one_line(file.path)
        lines.append([(f"  {name:<{width}}  {what}", "failed" if is_new else "muted")])
    return lines


def going_back(talk: Talk, index: int) -> list[tuple[FileBack, FileDiff]]:
    """Return the files that differ from their state at a message, with their diffs; reads files.

    Raises:
        BusyError: the agent is at work and may be changing them.
        EnvironmentFailure: see ``ChatSession.going_back``.
    """
    conversation, engine = talk.conversation, talk.conversation.setup.engine
    if conversation.is_busy:
        raise BusyError
    files = conversation.session.going_back(index, engine.environ, engine.own_places)
    return [(file, file_diff(one_line(file.path), file.before, file.now)) for file in files]


async def _go_back(talk: Talk, index: int, mode: int) -> None:
    """Go back to before the prompt at this message, and say what came of it."""
    prompt = split_files(talk.conversation.messages[index].content)[0]
    report = await talk.conversation.rewind(index, files=mode != CHAT_ONLY, chat=mode != FILES_ONLY)
    outcome = back_to(prompt, len(report.files.restored) + len(report.files.deleted))
    if mode == FILES_ONLY:
        outcome += " · the chat goes on"
    else:
        talk.suggest(prompt)
    for line in (outcome, *restored_lines(report.files)):
        talk.say(line)


async def run_undo(talk: Talk, _typed: TypedCommand) -> None:
    """Restore the files to their state before the last prompt that changed any."""
    for index, _ in reversed(_prompts(talk)):
        if await to_thread.run_sync(going_back, talk, index):
            await _go_back(talk, index, FILES_ONLY)
            return
    if await to_thread.run_sync(going_back, talk, 0):
        review = ", and /review chat gives files back" if "review" in talk.commands else ""
        raise UsageError(f"/undo: the prompt that changed files is summarised: /diff shows all changes{review}")
    raise UsageError(f"/undo: no file has changed in this conversation{_of_plans(talk)}")


undo_picker = partial(rewind_picker, mode=FILES_ONLY)
"""Returns the same picker as for a rewind, restoring files only."""


async def run_diff(talk: Talk, typed: TypedCommand) -> None:
    """Show what changed in files since the start, or since before a prompt."""
    index = _prompt_meant(talk, typed.rest, "diff") if typed.rest else 0
    files = await to_thread.run_sync(going_back, talk, index)
    if not files:
        talk.say(f"no file has changed{_of_plans(talk)}")
        return
    diffs = [diff for _, diff in files]
    talk.show_diff(f"diff {counted(len(files), 'file')}", plus_minus(diffs), "\n".join(diff.text for diff in diffs))


def _of_plans(talk: Talk) -> str:
    """Return where to find what plans changed, which is no part of the conversation."""
    return "; /review has what plans changed" if "review" in talk.commands else ""


def _prompt_meant(talk: Talk, number: str, command: str) -> int:
    """Return the index of the message of the prompt with this number.

    Raises:
        UsageError: there is no prompt with that number.
    """
    prompts = _prompts(talk)
    if not number.isdecimal() or not 1 <= int(number) <= len(prompts):
        raise UsageError(f"/{command} {number}: say the number of a prompt; /rewind lists them")
    return prompts[int(number) - 1][0]


def _prompts(talk: Talk) -> list[tuple[int, str]]:
    """Return each prompt of the person with the index of its message."""
    return [
        (index, one_line(message.content, TITLE_LENGTH))
        for index, message in enumerate(talk.conversation.messages)
        if isinstance(message, UserMessage) and not message.content.startswith(HOST_NOTICE)
    ]
