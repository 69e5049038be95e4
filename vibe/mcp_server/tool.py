"""ServedTool: a tool that clients of this server call, and the client as such a tool sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, model_validator

from vibe.core.errors import UsageError


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
    only_reads: ClassVar[bool] = False

    @abstractmethod
    async def call(self, given: Any, caller: Caller) -> ToolAnswer:
        """Do it. Cancelling the call ends all it has started.

        Raises:
            VibeError: the sentence is the answer.
        """
