"""CutAnswer: an answer that the model's output limit cut off, put together from the turns it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vibe.core.messages import AssistantMessage, Message, UserMessage
from vibe.core.middleware.port import HOST_NOTICE

MAX_CUTS: Final = 5
"""So many answers in a row that were cut off end the work."""
CONTINUE: Final = (
    f"{HOST_NOTICE}your last answer was cut off at the output limit. Continue it exactly where it stopped: repeat "
    "nothing of it, and do not comment on the cut."
)
SPEAK: Final = (
    f"{HOST_NOTICE}your last turn reached the output limit before it said anything. Think less and go on with the work "
    "in smaller steps."
)

_REPEATED: Final = 40
"""So many characters that end one part and begin the next are the same text said twice; fewer may be chance."""
_DISTINCT: Final = 10
"""With fewer different characters it is a ruler or a table, not a sentence."""
_LOOK_BACK: Final = 8_000


class CutAnswer:
    """The answer an agent is giving: ``text`` is all parts of it so far as one, nothing of it twice.

    ``cuts`` is how many turns in a row were cut off by now.
    """

    def __init__(self) -> None:
        self.cuts = 0
        self.text = ""

    @property
    def too_often(self) -> bool:
        """True if it is no use to go on."""
        return self.cuts >= MAX_CUTS

    def renew(self) -> None:
        """Begin another answer."""
        self.cuts, self.text = 0, ""

    def take(self, message: AssistantMessage) -> None:
        """Add what one turn said; what is said beside tool calls is no part of an answer."""
        if message.tool_calls:
            self.text = ""
        elif message.content.strip():
            # A part that goes on from another begins with the white space that belongs there.
            self.text = _joined(self.text, message.content)
        if message.cut:
            self.cuts += 1
        elif not message.is_empty:
            self.cuts = 0

    def restore(self, messages: Sequence[Message]) -> None:
        """Take the answer that a saved conversation ends with."""
        self.renew()
        start = len(messages)
        while start and _is_part(messages[start - 1]):
            start -= 1
        for message in messages[start:]:
            if isinstance(message, AssistantMessage):
                self.take(message)


def go_on(message: AssistantMessage) -> UserMessage:
    """Return what the model is told after a turn without calls that was cut off."""
    return UserMessage(CONTINUE if message.content.strip() else SPEAK)


def _is_part(message: Message) -> bool:
    if isinstance(message, UserMessage):
        return message.content.startswith(HOST_NOTICE)
    return isinstance(message, AssistantMessage) and not message.tool_calls


def _joined(said: str, more: str) -> str:
    """Both texts as one, where ``more`` may begin with the end of what was said, or say all of it once more."""
    opening = said[:_LOOK_BACK]
    if _is_repeated(opening) and more.startswith(opening):
        return more
    if _is_repeated(more) and said.startswith(more):
        return said
    longest = min(len(said), len(more), _LOOK_BACK)
    for size in range(longest, _REPEATED - 1, -1):
        if said.endswith(more[:size]) and _is_repeated(more[:size]):
            return said + more[size:]
    return said + more


def _is_repeated(text: str) -> bool:
    return len(text) >= _REPEATED and len(set(text)) >= _DISTINCT
