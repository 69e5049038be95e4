"""``/rewind``: back to before one of the prompts, files included."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.cli.render.event_text import counted, one_line
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import TITLE_LENGTH
from vibe.core.config.paths import in_utf8
from vibe.core.errors import UsageError
from vibe.core.messages import UserMessage
from vibe.core.middleware.port import HOST_NOTICE
from vibe.core.told_files import told_parts


async def run(talk: Talk, typed: Typed) -> None:
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
    for what, names in (
        ("restored", report.files.restored),
        ("deleted", report.files.deleted),
    ):
        if names:
            talk.say(f"{what}: {one_line(', '.join(names))}")
    for name, reason in report.files.skipped.items():
        talk.say(f"not restored: {one_line(name)}: {one_line(reason)}")
    for conflict in report.files.conflicts:
        talk.say(f"changed by someone else since: {conflict.path}, kept as {in_utf8(conflict.saved_as)}")
    talk.suggest(told_parts(taken_back)[0])
    talk.say(f"the conversation has {counted(len(talk.conversation.messages), 'message')} now")


async def choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the numbers of the prompts."""
    return [ArgumentChoice(str(number), text) for number, (_, text) in enumerate(_prompts(talk), start=1)]


def _prompts(talk: Talk) -> list[tuple[int, str]]:
    """Return each prompt of the person, with the index of its message."""
    return [
        (index, one_line(message.content, TITLE_LENGTH))
        for index, message in enumerate(talk.conversation.messages)
        if isinstance(message, UserMessage) and not message.content.startswith(HOST_NOTICE)
    ]
