"""Prepares a server's tools and resources for a model, and its prompts for people, within limits."""

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
from vibe.core.schemas import map_schema
from vibe.system.errors import UsageError
from vibe.system.plain_text import one_line, shortened

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import GetPromptResult, PaginatedResult, PromptMessage


NAME_LENGTH = 64
"""The most characters of a tool's name."""
DESCRIPTION_LENGTH = 2_000
"""The most characters of a tool's description."""
SCHEMA_BYTES = 8_000
"""The most bytes of an argument schema with descriptions. A longer one loses them."""
LONGEST_SCHEMA = 32_000
"""The most bytes of an argument schema without descriptions. A tool with a longer one is refused."""

_PROSE = frozenset({"description", "title", "examples", "$comment", "default"})
"""Keywords of a schema that only describe."""


class RemoteTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it. ``schema`` is the argument schema as JSON.

    ``read_only`` and ``repeatable`` are the server's claims: good enough for scheduling, but never for permission.
    """

    name: str
    description: str
    schema: str
    read_only: bool = False
    repeatable: bool = False
    reads_resources: bool = False
    """The tool is our own, and stands for the protocol's requests for resources."""


def remote_tool(name: str, description: str | None, schema: Mapping[str, Any], hints: Mapping[str, Any]) -> RemoteTool:
    """Return a listed tool, cut to our limits.

    Raises:
        ValueError: it can't be offered, because its name is empty or its schema too long.
    """
    if not name.strip():
        raise ValueError("a tool without a name")
    return RemoteTool(
        name=name,
        description=shortened((description or "").strip(), DESCRIPTION_LENGTH),
        schema=_schema_text(name, schema),
        read_only=hints.get("readOnlyHint") is True,
        repeatable=hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True,
    )


def proxy_names(tools: Iterable[tuple[str, str]], taken: Iterable[str] = ()) -> dict[tuple[str, str], str]:
    """Return a unique name for each (server, tool) that is not ``taken``.

    It is ``server_tool``, in letters that every provider accepts.
    """
    used = set(taken)
    names: dict[tuple[str, str], str] = {}
    for server, tool in tools:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")
        name = plain if len(plain) <= NAME_LENGTH and plain not in used else _distinct_name(plain, server, tool)
        used.add(name)
        names[server, tool] = name
    return names


def _distinct_name(plain: str, server: str, tool: str) -> str:
    digest = hashlib.blake2b(f"{server}\0{tool}".encode(), digest_size=4).hexdigest()
    return f"{plain[: NAME_LENGTH - len(digest) - 1]}_{digest}"


def _schema_text(name: str, schema: Mapping[str, Any]) -> str:
    whole: dict[str, Any] = {"type": "object", "properties": {}, **schema}
    whole.pop("$schema", None)
    text = _json(whole)
    if len(text.encode()) > SCHEMA_BYTES:
        text = _json(map_schema(whole, lambda part: {key: part[key] for key in part if key not in _PROSE}))
    if len(text.encode()) > LONGEST_SCHEMA:
        raise ValueError(f"{name!r} has an argument schema of {len(text.encode())} bytes")
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


MOST_PAGES = 100
"""The most pages of a list that are read, in case it never ends."""


Page = TypeVar("Page", bound="PaginatedResult")
Entry = TypeVar("Entry")


async def pages(
    offered: object, ask: Callable[[str | None], Awaitable[Page]], refused: list[str]
) -> AsyncGenerator[Page]:
    """Yield the pages of a list, if a server has ``offered`` one. ``ask`` fetches one by its cursor, the first by None.

    ``refused`` gets a sentence if there are more than are read.
    """
    if offered is None:
        return
    cursor, seen = None, {None, ""}
    for _ in range(MOST_PAGES):
        page = await ask(cursor)
        yield page
        if page.next_cursor in seen:
            return
        seen.add(cursor := page.next_cursor)
    refused.append(f"what follows on later pages of a list, of which only {MOST_PAGES} are read")


def _first(found: Mapping[str, Entry], most: int, what: str, refused: list[str]) -> tuple[Entry, ...]:
    """Return the first entries of a list. ``refused`` gets a sentence if there are more."""
    if len(found) > most:
        refused.append(f"{len(found) - most} of {len(found)} {what} {most}")
    return tuple(found.values())[:most]


def allowed_by(config: McpServerConfig) -> Callable[[str], bool]:
    """Return a predicate for tools that are not disabled, under their own name or the one they are offered under.

    Raises:
        ConfigError: a pattern of ``disabled_tools`` is not valid.
    """
    disabled = NamePatterns(config.disabled_tools, where=f"mcp_servers[{config.name}]", key="disabled_tools")
    return lambda tool: not any(map(disabled.matches, (tool, *proxy_names([(config.name, tool)]).values())))


async def list_tools(
    client: Client, allows: Callable[[str], bool], most: int, refused: list[str]
) -> tuple[RemoteTool, ...]:
    """Return the server's tools that ``allows`` accepts, sorted by name and cut to the first ``most``.

    ``refused`` gets a sentence for each tool that can't be used.
    """
    from mcp.types import PaginatedRequestParams

    tools: dict[str, RemoteTool] = {}
    offered, ask = client.server_capabilities.tools, client.session.list_tools
    async for page in pages(offered, lambda cursor: ask(params=PaginatedRequestParams(cursor=cursor)), refused):
        for tool in (tool for tool in page.tools if allows(tool.name)):
            hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
            try:
                tools.setdefault(tool.name, remote_tool(tool.name, tool.description, tool.input_schema, hints))
            except ValueError as error:
                refused.append(str(error))
    return _first(dict(sorted(tools.items())), most, "tools, since its max_tools is", refused)


READ_RESOURCE = "read_resource"
"""The name of the tool that reads resources."""
MOST_RESOURCES = 1_000
"""The most resources of a server that are listed."""
URI_LENGTH = 2_000
"""The most characters of a resource's uri. Longer ones are left out."""
ABOUT_LENGTH = 200
"""The most characters of a resource's description."""


async def list_resources(client: Client, refused: list[str]) -> tuple[str, ...]:
    """Return a server's resources, then its resource templates, in its own order, as lines for a model to choose from.

    Each begins with the uri. The uri of a template has names in braces to fill in. ``refused`` gets a sentence if there
    are more than are listed.
    """
    found: dict[str, str] = {}
    offered = client.server_capabilities.resources
    async for page in pages(offered, lambda cursor: client.list_resources(cursor=cursor), refused):
        for listed in page.resources:
            _add(found, listed.uri, listed.title or listed.name, listed.mime_type, listed.description)
    async for page in pages(offered, lambda cursor: client.list_resource_templates(cursor=cursor), refused):
        for listed in page.resource_templates:
            _add(found, listed.uri_template, listed.title or listed.name, listed.mime_type, listed.description)
    return _first(found, MOST_RESOURCES, "resources, since the most that are listed is", refused)


def _add(found: dict[str, str], uri: str, *about: str | None) -> None:
    if uri.isprintable() and 0 < len(uri) <= URI_LENGTH:
        text = one_line("; ".join(filter(None, about)), ABOUT_LENGTH)
        found.setdefault(uri, f"{uri}  {text}".rstrip())


def resource_tool(server: str) -> RemoteTool:
    """Return the tool that reads a server's resources, in the form of a tool of the server."""
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
"""The most prompts of a server that are offered."""
PROMPT_ABOUT_LENGTH = 400
"""The most characters of a prompt's description."""
SHOWN_LENGTH = 120
"""The most characters of a prompt's arguments in an error message."""
LONGEST_TEXT = 64_000
"""The most characters of a prompt's text."""


class RemotePrompt(Struct, frozen=True, kw_only=True):
    """A prompt as its server lists it. ``required`` are those of its ``arguments`` that must be given."""

    name: str
    about: str
    arguments: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()


async def list_prompts(client: Client, refused: list[str]) -> tuple[RemotePrompt, ...]:
    """Return the prompts of a server whose names can be typed, sorted by name.

    ``refused`` gets a sentence if there are more than are offered.
    """
    found: dict[str, RemotePrompt] = {}
    offered = client.server_capabilities.prompts
    async for page in pages(offered, lambda cursor: client.list_prompts(cursor=cursor), refused):
        for listed in page.prompts:
            given = listed.arguments or []
            names = [listed.name, *(argument.name for argument in given)]
            if all(name.isprintable() and len(name) <= NAME_LENGTH and name.split() == [name] for name in names):
                found[listed.name] = RemotePrompt(
                    name=listed.name,
                    about=shortened(" ".join((listed.description or listed.title or "").split()), PROMPT_ABOUT_LENGTH),
                    arguments=tuple(argument.name for argument in given),
                    required=frozenset(argument.name for argument in given if argument.required),
                )
    return _first(dict(sorted(found.items())), MOST_PROMPTS, "prompts, since the most that are offered is", refused)


def text_of_prompt(result: GetPromptResult) -> str:
    """Return the text of a prompt, with the kind of whatever is not text."""
    return shortened("\n\n".join(_texts(result.messages)), LONGEST_TEXT)


def given_arguments(prompt: RemotePrompt, text: str) -> Mapping[str, str]:
    """Parse the arguments of a prompt: words in the declared order, or NAME=VALUE. The last one takes all that is left.

    Raises:
        UsageError: one is missing, or there are more than the prompt takes.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()  # The text probably holds an apostrophe, not a quote.
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
            spare = one_line(text, SHOWN_LENGTH)
            raise UsageError(f"{prompt.name} takes no arguments: leave out {spare!r}")
    missing = [name for name in prompt.arguments if name in prompt.required and name not in given]
    if missing:
        raise UsageError(f"{prompt.name} needs {', '.join(missing)}: type {usage_of(prompt)} after it")
    return given


def usage_of(prompt: RemotePrompt) -> str:
    """Return a prompt's arguments as a person types them."""
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
