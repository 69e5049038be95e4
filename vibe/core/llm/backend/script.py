"""The file a scripted model replays: its format, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ipc.errors import INVALID_JSON
from vibe.core.errors import ConfigError
from vibe.core.llm.port import FinishReason

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FaultKind(StrEnum):
    """Faults a scripted turn can show instead of answering: one for each class of model error, and silence."""

    OVERLOADED = "overloaded"
    TRANSPORT = "transport"
    ACCESS = "access"
    CONTEXT_TOO_LONG = "context_too_long"
    PROTOCOL = "protocol"
    REQUEST = "request"
    SILENT = "silent"


class ScriptedFault(_Part):
    """Goes wrong the first ``times`` times its turn is asked, after ``after_chunks`` chunks were shown."""

    error: FaultKind
    status: Annotated[int, Field(ge=100, le=599)] | None = None
    retry_after: Seconds | None = None
    times: Annotated[int, Field(ge=1)] = 1
    after_chunks: Count = 0


class ScriptedCall(_Part):
    """A tool call; ``arguments`` is an object, or text that is passed on as it is, valid or not."""

    name: str
    arguments: dict[str, Any] | str = {}

    @property
    def arguments_text(self) -> str:
        """The arguments as a model would word them."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


class ScriptedUsage(_Part):
    """Tokens the turn is said to have used."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0


class ScriptedTurn(_Part):
    """One answer. ``delay_seconds`` is spread over its chunks of ``chunk_size`` characters (0: one chunk)."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage | None = None
    delay_seconds: Seconds = 0.0
    chunk_size: Count = 0
    finish_reason: FinishReason | None = None
    fault: ScriptedFault | None = None


class ScriptedAgent(_Part):
    """The turns of one caller, in order."""

    turns: tuple[ScriptedTurn, ...]


class ScriptFile(_Part):
    """The whole file."""

    version: Literal[1]
    agents: dict[str, ScriptedAgent]

    @model_validator(mode="after")
    def _has_agents(self) -> ScriptFile:
        if not self.agents:
            raise ValueError("no agents: name at least one, or '*'")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script in memory and where it came from (for messages)."""

    agents: Mapping[str, ScriptedAgent]
    source: str = "script"

    def agent_for(self, caller: str) -> ScriptedAgent | None:
        """The agent of a caller: its exact name, else the first pattern that matches, else ``*``."""
        if caller in self.agents:
            return self.agents[caller]
        matching = (agent for name, agent in self.agents.items() if name != "*" and fnmatchcase(caller, name))
        return next(matching, None) or self.agents.get("*")


def load_script(path: Path) -> Script:
    """Read a script, YAML or (by its suffix) JSON.

    Raises:
        ConfigError: the file cannot be read or is no script; the message names the file and the place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "is no UTF-8 text"
        raise ConfigError(str(path), "", f"the script cannot be read ({reason}); check 'script'") from error
    return parse_script(text, source=str(path), json=path.suffix.lower() == ".json")


def parse_script(text: str, *, source: str, json: bool) -> Script:
    """A script from its text.

    Raises:
        ConfigError: the text is no script.
    """
    data = _decode_json(text, source) if json else _decode_yaml(text, source)
    try:
        script = ScriptFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ConfigError(source, place(first["loc"]), f"{first['msg']}{more}") from error
    return Script(agents=script.agents, source=source)


def place(location: tuple[int | str, ...]) -> str:
    """A path into the file as people write it: ``agents.main.turns[0].text``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def _decode_json(text: str, source: str) -> object:
    try:
        return msgspec.json.decode(text)
    except INVALID_JSON as error:
        raise ConfigError(source, "", f"no valid JSON: {error}") from error


def _decode_yaml(text: str, source: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{source}{line}", "", f"no valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(source, "", f"no valid YAML: {error}") from error
