"""Leaves out of a request what its provider refuses, and says so: one refused part ends no conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import structs
from msgspec.structs import replace

from vibe.core.llm.errors import ModelRequestError
from vibe.core.llm.port import Completion, ModelBackend, ModelObserver, ModelRequest
from vibe.core.messages import AssistantMessage, Image, Message, Thought, UserMessage
from vibe.system.plain_text import some_of

MOST_TOOLS: Final = 128
"""OpenAI, "Function calling": more tools are refused, by those who follow it as well."""
MOST_TRIES: Final = 4
NOT_FOUND: Final = 404
NAMES_SHOWN: Final = 5
PICTURE_LEFT_OUT: Final = "(There was a picture here, which can't be shown to you.)"

Part: TypeAlias = Image | Thought | str
"""Parts that can be left out; a tool by its name."""

_ABOUT_THOUGHTS: Final = re.compile(r"signature|thinking|thought|reasoning", re.IGNORECASE)
_ABOUT_IMAGES: Final = re.compile(r"image|picture|vision|multi-?modal|modalit|media", re.IGNORECASE)
_ABOUT_TOOLS: Final = re.compile(r"tool|function|schema|parameter|propert|declaration", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"(?:tools|functions|function_declarations)\W{1,2}(\d{1,3})", re.IGNORECASE)


class SparingBackend:
    """A ``ModelBackend`` that asks once more without the part that a refusal blames.

    What was refused so stays out.
    """

    def __init__(self, inner: ModelBackend) -> None:
        self._inner = inner
        self._refused: frozenset[Part] = frozenset()

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        refused = self._refused
        for tries in range(1, MOST_TRIES + 1):
            spared = _spared(request, refused)
            try:
                completion = await self._inner.complete(spared, observer)
            except ModelRequestError as error:
                blamed = _blamed(error, spared)
                if not blamed or tries == MOST_TRIES:
                    raise
                refused |= blamed
            else:
                self._refused |= refused
                if spared is request:
                    return completion
                return replace(
                    completion, oddity="; ".join(filter(None, (completion.oddity, *_left_out(request, spared))))
                )
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Close the inner backend."""
        await self._inner.aclose()


def _spared(request: ModelRequest, refused: frozenset[Part]) -> ModelRequest:
    """Return a request without what was refused, and with no more tools than go."""
    if not refused and len(request.tools) <= MOST_TOOLS:
        return request
    taken = [tool for tool in request.tools if tool.ends_work or tool.name not in refused]
    if len(taken) > MOST_TOOLS:
        taken = sorted(taken, key=lambda tool: not tool.ends_work)[:MOST_TOOLS]
    return replace(request, messages=[_without(message, refused) for message in request.messages], tools=taken)


def _without(message: Message, refused: frozenset[Part]) -> Message:
    match message:
        case UserMessage(content, images) if not refused.isdisjoint(images):
            kept = tuple(image for image in images if image not in refused)
            words = [*filter(None, [content]), *[PICTURE_LEFT_OUT] * (len(images) - len(kept))]
            return UserMessage("\n".join(words), kept)
        case AssistantMessage(thoughts=thoughts) if not refused.isdisjoint(thoughts):
            return structs.replace(message, thoughts=tuple(one for one in thoughts if one not in refused))
        case _:
            return message


def _left_out(request: ModelRequest, spared: ModelRequest) -> Iterator[str]:
    """Yield, in sentences, what of a request was left out."""
    refuses = f"provider {request.model.provider!r} refuses"
    changed = [old for old, new in zip(request.messages, spared.messages, strict=True) if old is not new]
    if any(isinstance(message, UserMessage) for message in changed):
        yield f"{refuses} a picture of this conversation: it is left out"
    if any(isinstance(message, AssistantMessage) for message in changed):
        yield f"{refuses} earlier thoughts of the model: they are left out"
    passed = {tool.name for tool in spared.tools}
    if gone := [tool.name for tool in request.tools if tool.name not in passed]:
        many = f" more than {MOST_TOOLS} tools at once, or" if len(passed) == MOST_TOOLS else ""
        yield f"{refuses}{many} tools that are left out: {some_of(gone, NAMES_SHOWN)}"


def _blamed(error: ModelRequestError, request: ModelRequest) -> frozenset[Part]:
    """Return the parts of a request that a refusal is about, as far as its words tell."""
    words = "" if error.status == NOT_FOUND else str(error)
    thoughts = {one for each in request.messages if isinstance(each, AssistantMessage) for one in each.thoughts}
    if thoughts and _ABOUT_THOUGHTS.search(words):
        return frozenset(thoughts)
    images = {one for each in request.messages if isinstance(each, UserMessage) for one in each.images}
    if images and _ABOUT_IMAGES.search(words):
        return frozenset(images)
    if not _ABOUT_TOOLS.search(words):
        return frozenset()
    numbers = {int(number) for number in _NUMBERED.findall(words)}
    return frozenset(
        tool.name
        for number, tool in enumerate(request.tools)
        if not tool.ends_work and (number in numbers or re.search(rf"(?<![\w-]){re.escape(tool.name)}(?![\w-])", words))
    )
