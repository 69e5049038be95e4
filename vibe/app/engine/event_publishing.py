"""Publishing: the one root sink of a process run, over its bus, its log and the listeners in this process."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote
from uuid import uuid4

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from ipc import events as e
from ipc.bus import EventBus, event_bus
from ipc.control import Serve, control_server
from ipc.registry import RunInfo
from ipc.sink import EventSink, FanOutSink, StampingSink, TaggingSink
from vibe.app.engine.host import Host, refuse_below_two
from vibe.core.config.models import VibeConfig
from vibe.core.extensions import LISTENERS, make_extension

TOLD: Final = (
    *("plan_id", "step_id", "subagent_step_id", "subagent_id", "agent", "model", "tool", "tool_call_id", "rule"),
    *("status", "previous", "outcome", "reason", "exit_code", "decision", "attempt", "finish_reason", "tool_calls"),
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "context_tokens", "tokens_after"),
    "duration_s",
)
"""The fields in a log line, if not empty; of reasons only the stable words."""

_TOO_MANY: Final = (e.AssistantDeltaEvent, e.ReasoningDeltaEvent, e.ToolArgumentsEvent, e.ToolStreamEvent)

logger = logging.getLogger(__name__)


class EventLog:
    """An ``EventSink``: errors and warnings in full, at their level; all else but pieces of answers at DEBUG."""

    def publish(self, event: e.Event) -> None:
        """Log the event at its level."""
        if isinstance(event, e.ErrorEvent):
            logger.error("%s: %s", event.code, event.message)
        elif isinstance(event, e.WarningEvent):
            logger.info("%s: %s", event.code, event.message)
        elif logger.isEnabledFor(logging.DEBUG) and not isinstance(event, _TOO_MANY):
            logger.debug("%s%s", event.__struct_config__.tag, _told(event))


def _told(event: e.Event) -> str:
    values = ((name, getattr(event, name, None)) for name in TOLD)
    return "".join(f" {name}={value!r}" for name, value in values if value and not (name == "reason" and " " in value))


KEPT_WARNINGS = 100
"""Different warnings in a record; the others are counted."""
PASSING = frozenset({"pausing", "budget.wait", "budget.waited", "model.wait", "model.waited", "write.wait"})
"""Codes of warnings about a passing state."""


class WarningLog:
    """An ``EventSink`` that keeps warnings, each sentence once, for the run's record."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        self._more = 0

    def publish(self, event: e.Event) -> None:
        """Keep it, if it is a warning that lasts."""
        if not isinstance(event, e.WarningEvent) or event.code in PASSING or event.message in self._said:
            return
        if len(self._said) < KEPT_WARNINGS:
            self._said[event.message] = None
        else:
            self._more += 1

    def after(self, others: Iterable[str]) -> list[str]:
        """Return other sentences and those kept, each once."""
        more = [f"and {self._more} more warnings"] if self._more else []
        return [*dict.fromkeys((*others, *self._said)), *more]


TELEMETRY = "otlp"
"""The name of the listener that is vibe's own."""


class Listener(EventSink, Protocol):
    """Hears the events of a run, for an installed package."""

    def close(self) -> None:
        """Hear that the run has ended; no event comes after that."""
        ...


def _listeners_of(config: VibeConfig, host: Host) -> dict[str, Mapping[str, str]]:
    """Return the listeners that are configured, by name, each with the variables it is made with."""
    environ = {**host.environ, "VIBE_HOME": str(host.home)}
    listeners: dict[str, Mapping[str, str]] = dict.fromkeys(config.ipc.listeners, environ)
    telemetry = config.telemetry
    if telemetry.otlp_endpoint:
        headers = ",".join(f"{name}={quote(value)}" for name, value in telemetry.headers.items())
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": telemetry.otlp_endpoint}
        told |= {"OTEL_EXPORTER_OTLP_HEADERS": headers} if headers else {}
        told |= {"VIBE_TELEMETRY_CONTENT": "1"} if telemetry.content else {}
        listeners[TELEMETRY] = environ | told
    return listeners


class _Guarded(Struct, eq=False):
    """Hands events to a package's listener, until it fails: then it hears no more, and the run's record says so."""

    _name: str
    _listener: Listener | None
    _record: WarningLog

    def publish(self, event: e.Event) -> None:
        if self._listener is not None:
            self._call(partial(self._listener.publish, event))

    def flush(self) -> None:
        flush = getattr(self._listener, "flush", None)
        if flush is not None:
            self._call(flush)

    def close(self) -> None:
        if self._listener is not None:
            self._call(self._listener.close)

    def _call(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._listener = None
            logger.exception("the listener %s failed", self._name)
            message = f"the listener {self._name!r} failed and has heard no more: {error}"
            self._record.publish(e.WarningEvent(code="listener", message=message))


class Publishing(Struct, frozen=True, kw_only=True):
    """The channel of a run's events to its listeners."""

    sink: EventSink
    """Takes the run's events."""
    bus: EventBus
    session_id: str
    heard: WarningLog
    named: tuple[_Guarded, ...] = ()

    def warnings(self, others: Iterable[str] = ()) -> list[str]:
        """Return the warnings of the run's record: ``others``, those announced, and those of the bus.

        Listeners of packages are first told to give away what they hold.
        """
        for listener in self.named:
            listener.flush()
        return self.heard.after((*others, *(warning.message for warning in self.bus.warnings)))

    async def about(self, workspace: Path, title: str, *, plan_id: str | None = None) -> Publishing:
        """Announce the run's workspace, title and plan; its events carry the plan's id from then on."""
        kept = self.bus.entry.info.kept
        info = RunInfo(cwd=str(workspace), title=title, plan_id=plan_id, session_id=self.session_id, kept=kept)
        await anyio.to_thread.run_sync(self.bus.announce, info)
        return replace(self, sink=TaggingSink(self.sink, plan_id=plan_id))


@asynccontextmanager
async def publishing(
    host: Host,
    config: VibeConfig,
    listeners: Sequence[EventSink],
    *,
    address: str | None = None,
    control: Serve,
    kept: bool = True,
) -> AsyncGenerator[Publishing]:
    """Open the bus for one run; it closes, with all that was published on disk, when the block ends.

    The listeners of installed packages that the settings name hear it besides ``listeners``. ``address`` None: as
    configured. ``kept``: the events stay for a while after the run. ``control`` carries out commands from
    outside.

    Raises:
        UsageError: there are two vibes above this one, or there is no such listener.
        EnvironmentFailure: a listener can't be made.
        ipc.errors.BusUnavailableError: pynng can't be loaded, or the address can't be bound.
    """
    refuse_below_two(host.environ)
    source = session_id = uuid4().hex
    info = RunInfo(cwd="", session_id=session_id, kept=kept)
    bus_of = partial(EventBus, host.home, source=source, info=info, runtime_dir=host.runtime_dir)
    async with (
        event_bus(partial(bus_of, address=address or config.ipc.address or None)) as bus,
        control_server(bus.entry, control),
    ):
        heard = WarningLog()
        guarded: list[_Guarded] = []
        with ExitStack() as open_ones:
            for name, environ in _listeners_of(config, host).items():
                listener = make_extension(LISTENERS, name, environ)
                guarded.append(open_ones.enter_context(closing(_Guarded(name, listener, heard))))
            root = StampingSink(source, FanOutSink([bus, heard, EventLog(), *listeners, *guarded]))
            sink = TaggingSink(root, session_id=session_id)
            yield Publishing(sink=sink, bus=bus, session_id=session_id, heard=heard, named=tuple(guarded))
