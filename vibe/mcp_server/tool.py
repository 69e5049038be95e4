"""ServedTool: a tool that clients of this server call, the client as such a tool sees it, and all tools by name."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from vibe.core.errors import UsageError, VibeError, unexpected
from vibe.core.plain_text import closest, did_you_mean
from vibe.core.tools.schema import describe_problems


class CallRefusedError(UsageError):
    """A call that can't be made as it was asked for; nothing was done."""


class CallArguments(BaseModel):
    """The arguments of a tool, as models write them: null stands for what is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        table = cast("dict[str, Any]", given)
        return {name: value for name, value in table.items() if value is not None or name not in cls.model_fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The end of a call: ``text`` for the model that called, ``data`` for programs."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_error: bool = False


class Caller(ABC):
    """The client that made a call, for as long as the call lasts."""

    @property
    @abstractmethod
    def can_be_asked(self) -> bool:
        """True if it can put questions to a person."""

    @property
    @abstractmethod
    def connection(self) -> str:
        """The name of its connection, where a server has several; blank: the only one."""

    @abstractmethod
    async def ask(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Have a person choose one of ``choices``, words by key, and return its key; None: they would rather not.

        Cancelling the call withdraws the question.
        """

    @abstractmethod
    async def report(self, count: int, message: str) -> None:
        """Tell how far the call is, if the client wants to know; ``count`` grows from one to the next."""


class ServedTool(ABC):
    """A tool. Its ``arguments`` are checked before ``call``."""

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[CallArguments]]
    answer: ClassVar[Mapping[str, Any]] = {}
    """The JSON schemas of parts of an answer's ``data``, by name; all have a ``status``, a refusal its ``detail``."""
    only_reads: ClassVar[bool] = False

    @abstractmethod
    async def call(self, given: Any, caller: Caller) -> ToolAnswer:
        """Do it. Cancelling the call ends all it has started.

        Raises:
            VibeError: the sentence is the answer.
        """


logger = logging.getLogger(__name__)

MOST_PROBLEMS = 10


class ServedTools:
    """The tools there are."""

    def __init__(self, tools: Sequence[ServedTool]) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool. What can't be done is an answer, too: a sentence that says why."""
        from ipc.errors import IpcError  # noqa: PLC0415  the handshake does without it

        tool = self.by_name.get(name)
        if tool is None:
            hint = did_you_mean(closest(name, self.by_name), f"there are: {', '.join(self.by_name)}")
            return _refusal(f"there is no tool {name[:80]!r}; {hint}")
        try:
            return await tool.call(tool.arguments.model_validate(dict(arguments)), caller)
        except ValidationError as error:
            problems = [problem.removeprefix(": ") for problem in describe_problems(error, "")[:MOST_PROBLEMS]]
            takes = ", ".join(tool.arguments.model_fields)
            return _refusal(f"{name} can't be called so: {'; '.join(problems)}; it takes {takes}")
        except (VibeError, IpcError) as error:
            return _refusal(str(error))
        except Exception as error:
            logger.exception("a call of %s failed", name)
            return _refusal(unexpected(error))


def _refusal(sentence: str) -> ToolAnswer:
    return ToolAnswer(text=sentence, data={"status": "refused", "detail": sentence}, is_error=True)
