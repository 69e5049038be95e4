"""Settings of an MCP server; see ``models``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

PositiveInt = Annotated[int, Field(ge=1)]

PositiveSeconds = Annotated[float, Field(gt=0)]

NonNegativeInt = Annotated[int, Field(ge=0)]

NonNegativeFloat = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A table: immutable, and no unknown keys (the loader reports them before they get here)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class McpTransport(StrEnum):
    """Transport to an MCP server."""

    HTTP = "http"
    STREAMABLE_HTTP = "streamable-http"
    STDIO = "stdio"


def _words(value: Any) -> Any:
    """A command as TOML has it; pydantic would report each way it is not."""
    several = isinstance(value, (list, tuple))
    words: tuple[Any, ...] = tuple(cast("list[Any]", value)) if several else (value,)
    if not all(isinstance(word, str) for word in words):
        raise PydanticCustomError("words", "must be a string or a list of strings")
    return words if several else words[0]


class McpServerConfig(Section):
    """An MCP server. Its tools are called `<name>_<tool>`; `[tools.<name>_<tool>]` sets their permission."""

    name: str
    """The prefix of its tools' names; a later layer's server of the same name replaces the whole entry."""
    transport: McpTransport
    """`stdio` is a command that is run; `http` and `streamable-http` both mean streamable HTTP."""
    url: str = ""
    """For HTTP: its address, such as `https://host/mcp`; variables as in `headers`."""
    headers: dict[str, str] = Field(default_factory=dict)
    """For HTTP: headers of every request; `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` are a variable's value."""
    api_key_env: str = ""
    """For HTTP: the environment variable that holds its key, never the key itself."""
    api_key_header: str = "Authorization"
    """For HTTP: the header the key goes into, unless `headers` sets it."""
    api_key_format: str = "Bearer {token}"
    """For HTTP: the header's value, with `{token}` for the key."""
    command: Annotated[str | tuple[str, ...], BeforeValidator(_words)] = ""
    """For stdio: the command, as one string or a list of words."""
    args: tuple[str, ...] = ()
    """For stdio: arguments of the command."""
    env: dict[str, str] = Field(default_factory=dict)
    """For stdio: variables besides HOME, LOGNAME, PATH, SHELL, TERM and USER; `${NAME}` as in `headers`."""
    prompt: str = ""
    """A hint for the model about the server's purpose."""
    startup_timeout_sec: PositiveSeconds = 30.0
    """The time it may take to start and list its tools, in seconds."""
    tool_timeout_sec: PositiveSeconds = 60.0
    """The time a call of a tool may take, in seconds."""
    required: bool = False
    """Fail the run (exit code 3) if the server does not start."""
    enabled: bool = True
    """Use it at all."""
    disabled: bool = False
    """The opposite: `true` turns it off whatever `enabled` says."""
    disabled_tools: tuple[str, ...] = ()
    """Tools to leave out: names as the server has them or as offered, globs, or `re:` patterns."""
    max_tools: PositiveInt = 128
    """The most tools offered; more are left out, with a warning."""

    @property
    def in_use(self) -> bool:
        """True if the server is to be started."""
        return self.enabled and not self.disabled
