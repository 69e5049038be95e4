"""Tools and resources of a server, made fit for a model, and prompts that a person asks it for, within bounds."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from vibe.core.config.models import McpServerConfig
from vibe.core.config.patterns import NamePatterns
from vibe.core.schemas import remade
from vibe.system.errors import UsageError
from vibe.system.plain_text import plain_line, shortened

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import GetPromptResult, PaginatedResult, PromptMessage


NAME_LENGTH = 64
DESCRIPTION_LENGTH = 2_000
SCHEMA_BYTES = 8_000
"""A longer argument schema loses its descriptions; one that is still too long is refused."""
LONGEST_SCHEMA = 32_000

_PROSE = frozenset({"description", "title", "examples", "$comment", "default"})


class RemoteTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it. ``schema`` is the argument schema as JSON.

    ``read_only`` and ``repeatable`` are the server's word: good for scheduling, never for permission.
    """

    name: str
    description: str
    schema: str
    read_only: bool = False
    repeatable: bool = False
    reads_resources: bool = False
    """It is ours, in place of the protocol's requests for resources."""


def remote_tool(name: str, description: str | None, schema: Mapping[str, Any], hints: Mapping[str, Any]) -> RemoteTool:
    """A listed tool within our bounds.

    Raises:
        ValueError: it can't be offered, since its name is empty, or its schema too long.
    """
    if not name.strip():
        raise ValueError("a tool without a name")
    text = " ".join((description or "").split(" ")).strip()
    return RemoteTool(
        name=name,
        description=shortened(text, DESCRIPTION_LENGTH),
        schema=_bounded(name, schema),
        read_only=hints.get("readOnlyHint") is True,
        repeatable=hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True,
    )


def proxy_names(tools: Iterable[tuple[str, str]], taken: Iterable[str] = ()) -> dict[tuple[str, str], str]:
    """A name for each (server, tool): ``server_tool`` in the letters every provider takes, none twice, none taken."""
    used = set(taken)
    names: dict[tuple[str, str], str] = {}
    for server, tool in tools:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")
        name = plain if len(plain) <= NAME_LENGTH and plain not in used else _told_apart(plain, server, tool)
        used.add(name)
        names[server, tool] = name
    return names


def _told_apart(plain: str, server: str, tool: str) -> str:
    digest = hashlib.blake2b(f"{server}\0{tool}".encode(), digest_size=4).hexdigest()
    return f"{plain[: NAME_LENGTH - len(digest) - 1]}_{digest}"


def _bounded(name: str, schema: Mapping[str, Any]) -> str:
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {},
        **{key: value for key, value in schema.items() if key != "$schema"},
    }
    text = _json(whole)
    if len(text.encode()) > SCHEMA_BYTES:
        text = _json(remade(whole, _without_prose))
    if len(text.encode()) > LONGEST_SCHEMA:
        raise ValueError(f"{name!r} has an argument schema of {len(text.encode())} bytes")
    return text


def _without_prose(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _PROSE}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


MOST_PAGES = 100
"""A list that never ends is cut here."""


Page = TypeVar("Page", bound="PaginatedResult")


async def pages(ask: Callable[[str | None], Awaitable[Page]]) -> AsyncGenerator[Page]:
    """The parts of a list that ``ask`` returns by their cursors, the first by None."""
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await ask(cursor)
        yield page
        if not page.next_cursor or page.next_cursor == cursor:
            return
        cursor = page.next_cursor


def allowed_by(config: McpServerConfig) -> Callable[[str], bool]:
    """Return what says of a server's tool that it is not disabled, under its own name or the one it is offered under.

    Raises:
        ConfigError: a pattern of ``disabled_tools`` is not valid.
    """
    disabled = NamePatterns(config.disabled_tools, where=f"mcp_servers[{config.name}]", key="disabled_tools")
    return lambda tool: not any(map(disabled.matches, (tool, *proxy_names([(config.name, tool)]).values())))


async def list_tools(
    client: Client, allows: Callable[[str], bool], most: int, refused: list[str]
) -> tuple[RemoteTool, ...]:
    """The tools of a server that are offered, those it ``allows`` and of these the first by name, at ``most`` so many.

    ``refused`` gets a sentence for each that can't be used.
    """
    from mcp.types import PaginatedRequestParams

    tools: dict[str, RemoteTool] = {}
    if client.server_capabilities.tools is None:
        return ()
    async for page in pages(lambda cursor: client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))):
        for tool in page.tools:
            if not allows(tool.name):
                continue
            hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
            try:
                tools.setdefault(tool.name, remote_tool(tool.name, tool.description, tool.input_schema, hints))
            except ValueError as error:
                refused.append(str(error))
    if len(tools) > most:
        refused.append(f"{len(tools) - most} of {len(tools)} tools, since its max_tools is {most}")
    return tuple(tools[name] for name in sorted(tools)[:most])


READ_RESOURCE = "read_resource"
MOST_RESOURCES = 1_000
URI_LENGTH = 2_000
ABOUT_LENGTH = 200


async def list_resources(client: Client) -> tuple[str, ...]:
    """Return the resources of a server, then its templates, in its own order, as lines for a model to choose from.

    They begin with the uri, which of a template has names in braces to fill in.
    """
    if client.server_capabilities.resources is None:
        return ()
    found: dict[str, str] = {}
    async for page in pages(lambda cursor: client.list_resources(cursor=cursor)):
        for listed in page.resources:
            _add(found, listed.uri, listed.title or listed.name, listed.mime_type, listed.description)
    async for page in pages(lambda cursor: client.list_resource_templates(cursor=cursor)):
        for listed in page.resource_templates:
            _add(found, listed.uri_template, listed.title or listed.name, listed.mime_type, listed.description)
    return tuple(found.values())[:MOST_RESOURCES]


def _add(found: dict[str, str], uri: str, *about: str | None) -> None:
    if uri.isprintable() and 0 < len(uri) <= URI_LENGTH:
        text = shortened(plain_line("; ".join(filter(None, about))), ABOUT_LENGTH)
        found.setdefault(uri, f"{uri}  {text}".rstrip())


def resource_tool(server: str) -> RemoteTool:
    """Return what is offered where a server has resources, as if it were a tool of its own."""
    return RemoteTool(
        name=READ_RESOURCE,
        description=(
            f"Read a resource of the MCP server {server}, such as a document or a table, by its uri. Without a uri: "
            "list its resources; those with names in {braces} are read with these filled in."
        ),
        schema=json.dumps({"type": "object", "properties": {"uri": {"type": "string"}}, "additionalProperties": False}),
        read_only=True,
        repeatable=True,
        reads_resources=True,
    )


MOST_PROMPTS = 200
PROMPT_ABOUT_LENGTH = 400
SHOWN_LENGTH = 120
LONGEST_TEXT = 64_000


class RemotePrompt(Struct, frozen=True, kw_only=True):
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
                    about=shortened(" ".join((listed.description or listed.title or "").split()), PROMPT_ABOUT_LENGTH),
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
