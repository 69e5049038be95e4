"""A server's prompts: texts that a person asks it for by name, within bounds."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vibe.core.errors import UsageError
from vibe.core.plain_text import plain_line, shortened
from vibe.core.tools.mcp.remote import pages

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import GetPromptResult, PromptMessage

MOST_PROMPTS = 200
NAME_LENGTH = 64
ABOUT_LENGTH = 400
SHOWN_LENGTH = 120
LONGEST_TEXT = 64_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePrompt:
    """A prompt as its server lists it; ``required`` are those of its ``arguments`` that must be given."""

    name: str
    about: str
    arguments: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()


async def list_prompts(client: Client) -> tuple[RemotePrompt, ...]:
    """Return the prompts of a server whose names can be typed, by name."""
    if client.server_capabilities.prompts is None:
        return ()
    found: dict[str, RemotePrompt] = {}
    async for page in pages(lambda cursor: client.list_prompts(cursor=cursor)):
        for listed in page.prompts:
            given = listed.arguments or []
            if _is_typeable([listed.name, *(argument.name for argument in given)]):
                found[listed.name] = RemotePrompt(
                    name=listed.name,
                    about=shortened(" ".join((listed.description or listed.title or "").split()), ABOUT_LENGTH),
                    arguments=tuple(argument.name for argument in given),
                    required=frozenset(argument.name for argument in given if argument.required),
                )
    return tuple(found[name] for name in sorted(found)[:MOST_PROMPTS])


def text_of_prompt(result: GetPromptResult) -> str:
    """Return the text of a prompt; of what is no text, the kind."""
    return shortened("\n\n".join(_texts(result.messages)), LONGEST_TEXT)


def given_arguments(prompt: RemotePrompt, text: str) -> Mapping[str, str]:
    """Return the arguments in a text: words in the order declared, or NAME=VALUE; the last takes all that is left.

    Raises:
        UsageError: one is missing, or there are more than it takes.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()  # an apostrophe is no quote
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        free = [one for one in prompt.arguments if one not in given]
        if equals and name in free:
            given[name] = value
        elif free:
            given[free[0]] = word
        elif prompt.arguments:
            last = prompt.arguments[-1]
            given[last] = f"{given[last]} {word}"
        else:
            raise UsageError(
                f"{prompt.name} takes no arguments: leave out {shortened(plain_line(text), SHOWN_LENGTH)!r}"
            )
    missing = [name for name in prompt.arguments if name in prompt.required and name not in given]
    if missing:
        raise UsageError(f"{prompt.name} needs {', '.join(missing)}: type {usage_of(prompt)} after it")
    return given


def usage_of(prompt: RemotePrompt) -> str:
    """Return the arguments it takes, as they are typed."""
    return " ".join(name.upper() if name in prompt.required else f"[{name.upper()}]" for name in prompt.arguments)


def _texts(messages: Sequence[PromptMessage]) -> Iterable[str]:
    for message in messages:
        content = message.content
        match content.type:
            case "text":
                text = content.text
            case "resource" if isinstance(inner := getattr(content.resource, "text", None), str):
                text = inner
            case kind:
                text = f"[{kind} left out]"
        yield text if message.role == "user" else f"[assistant] {text}"


def _is_typeable(names: Sequence[str]) -> bool:
    return all(name.isprintable() and len(name) <= NAME_LENGTH and name.split() == [name] for name in names)
