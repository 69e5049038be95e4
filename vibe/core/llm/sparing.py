"""Leaves out of a request what its provider refuses, and says so: one refused part ends no conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import structs

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
            spared = _Sieve(request, refused)
            try:
                completion = await self._inner.complete(spared.passed, observer)
            except ModelRequestError as error:
                blamed = _blamed(error, spared.passed)
                if not blamed or tries == MOST_TRIES:
                    raise
                refused |= blamed
            else:
                self._refused |= refused
                return replace(completion, oddity="; ".join(filter(None, (completion.oddity, *spared.said()))))
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Close the inner backend."""
        await self._inner.aclose()


class _Sieve:
    """A request without what was refused, and with no more tools than go.

    ``passed`` is what is left of it.
    """

    def __init__(self, request: ModelRequest, refused: frozenset[Part]) -> None:
        self._request, self._refused = request, refused
        self._provider = request.model.provider
        self._images = self._thoughts = 0
        messages = [self._message(message) for message in request.messages]
        taken = [tool for tool in request.tools if tool.ends_work or tool.name not in refused]
        if len(taken) > MOST_TOOLS:
            taken = sorted(taken, key=lambda tool: not tool.ends_work)[:MOST_TOOLS]
        self.passed = replace(request, messages=messages, tools=taken)

    def said(self) -> Iterator[str]:
        """Yield, in sentences, what was left out."""
        passed = {tool.name for tool in self.passed.tools}
        refuses = f"provider {self._provider!r} refuses"
        if self._images:
            yield f"{refuses} a picture of this conversation: it is left out"
        if self._thoughts:
            yield f"{refuses} earlier thoughts of the model: they are left out"
        if gone := [tool.name for tool in self._request.tools if tool.name not in passed]:
            many = f" more than {MOST_TOOLS} tools at once, or" if len(passed) == MOST_TOOLS else ""
            yield f"{refuses}{many} tools that are left out: {some_of(gone, NAMES_SHOWN)}"

    def _message(self, message: Message) -> Message:
        match message:
            case UserMessage(content, images) if images:
                kept = tuple(image for image in images if image not in self._refused)
                lost = len(images) - len(kept)
                self._images += lost
                words = [*filter(None, [content]), *[PICTURE_LEFT_OUT] * lost]
                return UserMessage("\n".join(words), kept) if lost else message
            case AssistantMessage(thoughts=thoughts) if not self._refused.isdisjoint(thoughts):
                self._thoughts += 1
                return structs.replace(message, thoughts=tuple(one for one in thoughts if one not in self._refused))
            case _:
                return message


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
