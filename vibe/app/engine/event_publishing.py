"""Publishing: the one root sink of a run, over its bus, its log and the listeners in this process."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote
from uuid import uuid4

from anyio import to_thread
from msgspec import Struct, field, structs

from ipc import events as e
from ipc.bus import EventBus, event_bus
from ipc.control import Serve, control_server
from ipc.registry import RunInfo
from ipc.sink import EventSink, FanOutSink, StampingSink, TaggingSink
from vibe.app.engine.host import Host, refuse_below_two
from vibe.core.config.models import VibeConfig
from vibe.core.extensions import LISTENERS, make_extension
from vibe.system.errors import VibeError
from vibe.system.racing import shielded

LOGGED_FIELDS: Final = (
    *("plan_id", "step_id", "subagent_step_id", "subagent_id", "agent", "model", "tool", "tool_call_id", "rule"),
    *("status", "previous", "outcome", "reason", "exit_code", "decision", "attempt", "finish_reason", "tool_calls"),
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "context_tokens", "tokens_after"),
    "duration_s",
)
"""The fields that a log line contains, unless they are empty. Of reasons, only the stable words."""

_UNLOGGED: Final = (e.AssistantDeltaEvent, e.ReasoningDeltaEvent, e.ToolArgumentsEvent, e.ToolStreamEvent)

logger = logging.getLogger(__name__)


class EventLog:
    """An ``EventSink`` that logs errors and warnings in full, and everything else but pieces of answers at DEBUG."""

    def publish(self, event: e.Event) -> None:
        """Log the event at its level."""
        if isinstance(event, e.ErrorEvent):
            logger.error("%s: %s", event.code, event.message)
        elif isinstance(event, e.WarningEvent):
            logger.info("%s: %s", event.code, event.message)
        elif logger.isEnabledFor(logging.DEBUG) and not isinstance(event, _UNLOGGED):
            logger.debug("%s%s", event.__struct_config__.tag, _fields_text(event))


def _fields_text(event: e.Event) -> str:
    values = ((name, getattr(event, name, None)) for name in LOGGED_FIELDS)
    return "".join(f" {name}={value!r}" for name, value in values if value and not (name == "reason" and " " in value))


KEPT_WARNINGS = 100
"""The most different warnings in a record. Any others are only counted."""
PASSING = frozenset({"pausing", "budget.wait", "budget.waited", "model.wait", "model.waited", "write.wait"})
"""Codes of warnings about a passing state."""


class WarningLog(Struct, eq=False):
    """An ``EventSink`` that keeps the warnings for the run's record, each sentence once."""

    _sentences: dict[str, None] = field(default_factory=dict[str, None])
    _not_kept: int = 0

    def publish(self, event: e.Event) -> None:
        """Keep the event if it is a warning about more than a passing state."""
        if not isinstance(event, e.WarningEvent) or event.code in PASSING or event.message in self._sentences:
            return
        if len(self._sentences) < KEPT_WARNINGS:
            self._sentences[event.message] = None
        else:
            self._not_kept += 1

    def after(self, others: Iterable[str]) -> list[str]:
        """Return other sentences followed by the kept ones, each once."""
        more = [f"and {self._not_kept} more warnings"] if self._not_kept else []
        return [*dict.fromkeys((*others, *self._sentences)), *more]


TELEMETRY = "otlp"
"""The name of vibe's own listener."""


class Listener(EventSink, Protocol):
    """The port of an installed package that listens to the events of a run."""

    def close(self) -> None:
        """Take note that the run has ended. No event comes after this."""


def _listeners_of(config: VibeConfig, host: Host) -> dict[str, Mapping[str, str]]:
    """Return the configured listeners by name, each with the environment variables it is made with."""
    environ = {**host.environ, "VIBE_HOME": str(host.home)}
    listeners: dict[str, Mapping[str, str]] = dict.fromkeys(config.ipc.listeners, environ)
    telemetry = config.telemetry
    if telemetry.otlp_endpoint:
        headers = ",".join(f"{name}={quote(value)}" for name, value in telemetry.headers.items())
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": telemetry.otlp_endpoint}
        variables |= {"OTEL_EXPORTER_OTLP_HEADERS": headers} if headers else {}
        variables |= {"VIBE_TELEMETRY_CONTENT": "1"} if telemetry.content else {}
        listeners[TELEMETRY] = environ | variables
    return listeners


class _Guarded(Struct, eq=False):
    """Passes events to a package's listener until it fails. Then it gets no more, and the run's record says so."""

    _name: str
    _listener: Listener | None
    _record: WarningLog

    def publish(self, event: e.Event) -> None:
        self._call("publish", event)

    def flush(self) -> None:
        self._call("flush")

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str, *arguments: e.Event) -> None:
        act = getattr(self._listener, name, None)  # not every listener has a flush, and one that failed has nothing
        try:
            if act is not None:
                act(*arguments)
        except Exception as error:
            self._listener = None
            is_fault = not isinstance(error, VibeError)
            logger.log(logging.ERROR, "the listener %s failed: %s", self._name, error, exc_info=is_fault)
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
        """Return the warnings for the run's record: ``others``, those announced, and those of the bus.

        The listeners of packages are flushed first. Blocks.
        """
        for listener in self.named:
            listener.flush()
        return self.heard.after((*others, *(warning.message for warning in self.bus.warnings)))

    async def about(self, workspace: Path, title: str, *, plan_id: str | None = None) -> Publishing:
        """Announce the run's workspace, title and plan. Its events carry the plan's id from then on."""
        kept = self.bus.entry.info.kept
        info = RunInfo(cwd=str(workspace), title=title, plan_id=plan_id, session_id=self.session_id, kept=kept)
        await to_thread.run_sync(self.bus.announce, info)
        return structs.replace(self, sink=TaggingSink(self.sink, plan_id=plan_id))


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
    """Open the bus for one run. When the block ends it closes, with everything that was published on disk.

    Listeners of installed packages that the settings name get the events too, beside ``listeners``. Without an
    ``address`` the configured one is used. With ``kept``, the events stay for a while after the run. ``control``
    carries out commands from outside.

    Raises:
        UsageError: two vibes are above this one already, or there is no such listener.
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
        package_listeners: list[_Guarded] = []
        async with AsyncExitStack() as stack:
            for name, environ in _listeners_of(config, host).items():
                listener = _Guarded(name, await to_thread.run_sync(make_extension, LISTENERS, name, environ), heard)
                stack.push_async_callback(shielded, partial(to_thread.run_sync, listener.close))
                package_listeners.append(listener)
            root = StampingSink(source, FanOutSink([bus, heard, EventLog(), *listeners, *package_listeners]))
            sink = TaggingSink(root, session_id=session_id)
            yield Publishing(sink=sink, bus=bus, session_id=session_id, heard=heard, named=tuple(package_listeners))
