"""A server's prompts: texts that a person asks it for by name, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vibe.core.plain_text import shortened
from vibe.core.tools.mcp.remote import pages

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import GetPromptResult, PromptMessage

MOST_PROMPTS = 200
NAME_LENGTH = 64
ABOUT_LENGTH = 400
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
