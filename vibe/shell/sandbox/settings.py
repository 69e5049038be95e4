"""The settings of the sandbox, in the table `[sandbox]` of ``config.toml``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class SandboxMode(StrEnum):
    """The conditions under which commands are confined."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


class Network(StrEnum):
    """The network that a confined program can reach."""

    LOOPBACK = "loopback"
    ON = "on"


_Limit = Annotated[int, Field(ge=0)]


class SandboxConfig(BaseModel):
    """Confinement of commands that a model runs, and of a plan's checks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mode: SandboxMode = SandboxMode.AUTO
    """`auto` confines where the system can, `required` fails (exit code 3) where it can't, `off` never does."""
    network: Network = Network.LOOPBACK
    """`loopback` lets programs reach only servers they started themselves, on localhost; `on` lets them reach
    everything."""
    unix_sockets: bool = False
    """Let programs use Unix sockets, such as those of a database that a test starts (bubblewrap only): then they may
    also reach one that another program opens in a place they can read, while they run."""
    writable: tuple[str, ...] = ()
    """Folders that may be written besides the workspace and temporary files; `~` is your home."""
    readable: tuple[str, ...] = ()
    """Files and folders that may be read despite holding secrets, such as `~/.npmrc`."""
    max_processes: _Limit = 4_096
    """The most processes and threads a command may have at once (in bubblewrap, and not as root); 0: no limit."""
    max_memory_mb: _Limit = 16_384
    """The data memory of each process, in MB; 0: no limit."""
    max_file_mb: _Limit = 16_384
    """The size of a file a command writes, in MB; 0: no limit."""
