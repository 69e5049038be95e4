"""``/copy``: an answer, or a block of code, on the clipboard."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.cli.render.code_blocks import code_blocks
from vibe.cli.render.event_text import counted
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import words
from vibe.core.errors import UsageError
from vibe.core.messages import AssistantMessage

CODE = "code"


async def run(talk: Talk, typed: Typed) -> None:
    """Copy the last answer or block of code, or an earlier one."""
    first, _, rest = typed.rest.partition(" ")
    number = (rest.strip() if first == CODE else typed.rest) or "1"
    messages = talk.conversation.messages
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


async def choices(_talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the word for blocks of code."""
    return () if " " in text else words(CODE)
