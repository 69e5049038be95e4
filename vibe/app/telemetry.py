"""OpenTelemetry: a listener that turns a run's events into spans and metrics, sent by OTLP over HTTP.

Names follow the semantic conventions for generative AI, version 0.1.0 (development), whose metrics are counters of
tokens and histograms of seconds (github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai). Times are those of
the events. Ids are derived from the record, so a span that is sent twice, such as by a later export, is the same span.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field

from ipc import events as e
from ipc.registry import Registry
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.http import THIS_MACHINE

try:
    from opentelemetry import trace as otel
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    from requests import Response, Session
    from requests.exceptions import ConnectionError, ProxyError, ReadTimeout, RequestException  # noqa: A004  requests has its own
except ImportError as error:
    raise EnvironmentFailure(
        f"OpenTelemetry is not installed ({error.name}): "
        "`pip install 'vibe-orchestrator[telemetry]'`, or leave [telemetry] out"
    ) from None

ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
CONTENT = "VIBE_TELEMETRY_CONTENT"
"""The variable that is set if the texts of messages and tools are sent, too."""
SCHEMA: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
PROVIDERS: Final = {"mistral": "mistral_ai"}
"""The names that the conventions have for providers with other names here."""
TOKENS: Final = ("input_tokens", "output_tokens", "cache_read.input_tokens")
"""The kinds of tokens, with which names of attributes and metrics end."""
COUNTED: Final = "gen_ai.client.inference.usage."
SECONDS: Final = (
    *("gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration"),
    *("vibe.step.duration", "vibe.request.wait"),
)
TIMED: Final = {"tool": SECONDS[0], "agent": SECONDS[1], "step": SECONDS[2], "plan": SECONDS[1]}
"""The metric for each kind of span. To the conventions, a workflow is an agent."""
MOST_CONTENT = 8 * 1024
"""The most bytes of one text."""
MOST_QUEUED, BATCH = 65_536, 512
"""The most spans that wait to be sent, and the most in one request."""
SEND_SECONDS = 5.0
"""The time that a receiver has for one request, including further tries after failures."""
LAST_SECONDS = 10.0
"""The time in which a receiver must begin to take the last of the spans, when a run's record waits for it."""
NO_ANSWER, TOO_SLOW = "no answer: check the address", "too slow"
GOAL_LENGTH = 60
PLAN, STEP, AGENT, CHAT, TOOL = "plan", "step", "agent", "chat", "tool"
"""The kinds of spans, with which their keys begin."""
NOTED: Final[Mapping[type, tuple[str, Mapping[str, str]]]] = {
    e.PlanRevisedEvent: ("vibe.plan.revised", {"vibe.plan.revision": "number", "vibe.request.by": "by"}),
    e.WorktreeEvent: ("vibe.worktree", {"vibe.worktree.status": "status"}),
    e.PlacementEvent: ("vibe.place", {"vibe.place.status": "status", "vibe.place.worker": "worker"}),
    e.WarningEvent: ("vibe.warning", {"vibe.warning.code": "code"}),
}
"""Events that are noted on the span they happen in: the name of the note, and its attributes by the event's fields."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_Key: TypeAlias = tuple[str, ...]
NO_STEP: Final = e.StepOutline(id="", title="", mode="")
ENDED: Final = frozenset({"completed", "failed", "skipped", "cancelled"})


def listen(environ: Mapping[str, str]) -> Telemetry:
    """Make the listener of a run, with the endpoint and headers from the standard variables.

    Raises:
        UsageError: no endpoint is set.
    """
    endpoint = environ.get(ENDPOINT, "")
    if not endpoint:
        raise UsageError("telemetry has no endpoint: set otlp_endpoint in the [telemetry] table of config.toml")
    before = partial(run_before, Registry(Path(environ["VIBE_HOME"])))
    parent = environ.get("TRACEPARENT", "")
    return Telemetry(endpoint, headers_in(environ), parent=parent, content=bool(environ.get(CONTENT)), before=before)


def run_before(registry: Registry, event: e.PlanResumedEvent) -> str:
    """Return the source of the last run of a plan that had ended when the plan was resumed; empty if it is unknown."""
    ended = (run for run in registry.ended() if run.started < event.ts)  # newest first
    return next((run.source for run in ended if run.info.plan_id == event.plan_id and run.source != event.source), "")


def headers_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers in the standard variable: ``name=value`` pairs, comma-separated and percent-encoded."""
    given = (each.partition("=") for each in environ.get(HEADERS, "").split(",") if "=" in each)
    return {name.strip(): unquote(value.strip()) for name, _, value in given}


class _FixedIds(IdGenerator):
    """Returns the ids that it was last given."""

    trace = span = 1

    def generate_trace_id(self) -> int:
        """Return the id of the trace that begins, if one does."""
        return self.trace

    def generate_span_id(self) -> int:
        """Return the id of the span that begins."""
        return self.span


class _Link(Session):
    """The link to a receiver. ``why`` says what was wrong with its last answer, should something be lost.

    ``until`` is when the last request may begin. It is infinite as long as nobody waits for the end.
    """

    until, why, failed = math.inf, NO_ANSWER, 0
    is_taken = True
    """True unless the receiver refused the last request."""

    def request(self, *args: Any, **options: Any) -> Response:
        """Send a request for an exporter, which tries again after a pause unless this raises a RequestException."""
        is_awaited, self.why, self.is_taken = self.until < math.inf, NO_ANSWER, False
        try:
            response = super().request(*args, **options)
        except ReadTimeout:
            self.why = TOO_SLOW
            raise
        except ConnectionError as error:
            self.why = f"{NO_ANSWER}, and your HTTP(S)_PROXY" if isinstance(error, ProxyError) else NO_ANSWER
            self.failed += 1
            if is_awaited and self.failed > 1:  # first it tries again at once, as a link that was kept may have ended
                raise RequestException(error) from error
            raise
        self.failed, self.is_taken = 0, response.status_code // 100 == 2
        self.why = TOO_SLOW if self.is_taken else f"it answers HTTP {response.status_code}"
        if response.is_redirect or (is_awaited and not self.is_taken):  # an exporter takes a redirect for a success
            response.close()
            raise RequestException(response=response)
        return response


class _CountingExporter(OTLPSpanExporter):
    """Sends spans until some are ``lost``: refused, or too late for the link. The others are counted as ``taken``."""

    link: _Link
    lost, taken = False, 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; fail at once if an earlier request failed."""
        result = SpanExportResult.FAILURE
        if not self.lost and time.monotonic() < self.link.until:
            result = super().export(spans)
        self.lost = result is not SpanExportResult.SUCCESS
        self.taken += 0 if self.lost else len(spans)
        return result


class _MetricExporter(OTLPMetricExporter):
    """Sends metrics unless it ``is_silent``: there is nothing new, or nobody who takes it."""

    is_silent = False

    def export(self, *args: Any, **options: Any) -> MetricExportResult:
        """Send the metrics."""
        return MetricExportResult.SUCCESS if self.is_silent else super().export(*args, **options)  # pyright: ignore[reportUnknownMemberType]  untyped there


class _OpenSpan(Struct, kw_only=True):
    """A span that has not ended.

    ``within`` is the key of the root above it. ``said`` holds the messages for an agent's next model call. ``ended`` is
    the time at which a model call ended whose tokens are not known yet.
    """

    span: otel.Span
    began: float
    within: _Key
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tokens: list[int] = field(default_factory=lambda: [0, 0])
    ended: float | None = None


class Telemetry:
    """Takes events and has spans sent from a thread. Only ``flush`` and ``close`` wait, for which they need one, too.

    ``parent`` is a W3C ``traceparent``. ``before`` returns the source of the run before the one that resumes a plan. An
    export holds up nobody: it waits as long as the receiver takes spans, and has no metrics.

    Raises:
        UsageError: the endpoint is not an address.
    """

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        parent: str = "",
        content: bool = False,
        is_export: bool = False,
        before: Callable[[e.PlanResumedEvent], str] = lambda _event: "",
    ) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise UsageError(f"{endpoint!r} is not the address of a receiver: give one such as http://localhost:4318")
        self._endpoint = endpoint = endpoint.rstrip("/")
        self._content = content
        self._is_export = is_export
        self._run_before = before
        self._outside = TraceContextTextMapPropagator().extract({"traceparent": parent})
        self._open: dict[_Key, _OpenSpan] = {}
        self._step_contexts: dict[_Key, otel.SpanContext] = {}
        self._outlines: dict[_Key, e.StepOutline] = {}
        self._open_requests: dict[str, e.Event] = {}
        self._prompts: dict[str, _Key] = {}
        self._last = 0.0
        self._ended = 0
        self._ids = _FixedIds()
        self._link = _Link()
        self._link.proxies = {f"{scheme}://{host}": "" for scheme in ("http", "https") for host in THIS_MACHINE}
        to: dict[str, Any] = {"headers": dict(headers), "timeout": SEND_SECONDS, "session": self._link}
        self._exporter = _CountingExporter(f"{endpoint}/v1/traces", **to)
        self._exporter.link = self._link
        resource = Resource.create({"service.name": "vibe"})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, max_queue_size=MOST_QUEUED, max_export_batch_size=BATCH)
        )
        self._tracer = self._provider.get_tracer("vibe", schema_url=SCHEMA)
        self._metrics = _MetricExporter(f"{endpoint}/v1/metrics", **to)
        readers = [] if is_export else [PeriodicExportingMetricReader(self._metrics)]
        self._meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        meter = self._meters.get_meter("vibe", schema_url=SCHEMA)
        self._seconds = {name: meter.create_histogram(name, unit="s") for name in SECONDS}
        self._tokens = {kind: meter.create_counter(COUNTED + kind, unit="{token}") for kind in TOKENS}

    def publish(self, event: e.Event) -> None:
        """Take an event.

        Raises:
            EnvironmentFailure: the receiver did not take what was sent before.
        """
        self._last = event.ts or self._last
        if handle := self._handlers.get(type(event)):
            self._metrics.is_silent = False
            handle(self, event)
        if self._is_export and self._ended - self._exporter.taken >= MOST_QUEUED // 2:  # a full queue would drop some
            self._provider.force_flush()
        self._check()

    def close(self) -> None:
        """End the open spans and send the rest.

        Raises:
            EnvironmentFailure: the receiver did not take it.
        """
        for key in reversed(tuple(self._open)):
            self._metrics.is_silent = False
            self._end(key, self._open[key].ended or self._last)
        if not self._is_export:
            self._link.until = time.monotonic() + LAST_SECONDS
        self._provider.force_flush()
        self._provider.shutdown()
        self._exporter.lost = self._exporter.taken < self._ended
        self._check()
        self._meters.shutdown(timeout_millis=SEND_SECONDS * 1000)
        if not self._link.is_taken:  # it has sent the metrics last; each request has all that came before, too
            raise EnvironmentFailure(f"{self._endpoint} takes spans, but no metrics")

    def flush(self) -> None:
        """Send the spans that have ended, and the metrics, which may take as long as one request each.

        Raises:
            EnvironmentFailure: the receiver did not take them.
        """
        self._link.until = time.monotonic() + LAST_SECONDS
        self._provider.force_flush()
        self._check()
        self._meters.force_flush(SEND_SECONDS * 1000)
        self._metrics.is_silent = True
        self._link.until = math.inf
        if not self._link.is_taken:  # nothing more will be heard
            self.close()

    def _check(self) -> None:
        taken = self._exporter.taken
        if self._exporter.lost:
            # First the exporter, so that the others wait for no receiver.
            self._metrics.is_silent = True
            self._meters.shutdown(timeout_millis=SEND_SECONDS * 1000)
            self._provider.shutdown()
            problem = f"takes only {taken} of {self._ended} spans" if taken else "takes no spans"
            raise EnvironmentFailure(
                f"{self._endpoint} {problem} ({self._link.why}); "
                f"`vibe events export RUN --otlp {self._endpoint}` sends those of a run later"
            )

    # --- spans

    def _begin(
        self,
        key: _Key,
        name: str,
        event: e.Event,
        attrs: Mapping[str, Any],
        *,
        above: _Key | None = None,
        links: Sequence[otel.Link] = (),
    ) -> _OpenSpan:
        """Begin a span below an open one, or a root if there is none ``above``."""
        self._end(key, event.ts)
        parent = None if above is None or above == key else self._open.get(above)
        context = self._outside if parent is None else otel.set_span_in_context(parent.span)
        kind = otel.SpanKind.CLIENT if key[0] == CHAT else otel.SpanKind.INTERNAL
        self._ids.trace = _id_from(16, *key, event.source)
        self._ids.span = _id_from(8, *key, event.source if key[0] == PLAN else event.event_id)
        span = self._tracer.start_span(name, context, kind, _with_values(attrs), links, _nanoseconds(event.ts))
        opened = _OpenSpan(span=span, began=event.ts, within=key if parent is None else parent.within)
        self._open[key] = opened
        return opened

    def _end(self, key: _Key, ts: float, error: str = "", attrs: Mapping[str, Any] = NOTHING) -> None:
        """End a span if it is open. An ``error`` is its type."""
        opened = self._open.pop(key, None)
        if opened is None:
            return
        opened.span.set_attributes(_with_values({**opened.attrs, **attrs, "error.type": error or None}))
        if error:
            opened.span.set_status(otel.Status(otel.StatusCode.ERROR))
        self._ended += opened.span.is_recording()  # not below a parent that is not sampled
        opened.span.end(_nanoseconds(ts))
        if key[0] in TIMED:
            self._seconds[TIMED[key[0]]].record(max(ts - opened.began, 0.0), _with_values({"error.type": error}))

    def _place(self, event: e.Event) -> _Key | None:
        """Return the key of the open span that an event happened in: its agent's, its step's or its plan's."""
        talk = next((key for key in reversed(self._prompts.values()) if key in self._open), None)
        keys = (_agent(event), (STEP, event.plan_id or "", event.subagent_step_id or ""), (PLAN, event.plan_id or ""))
        return next((key for key in (*keys, talk) if key in self._open), None)

    def _note(self, event: e.Event, name: str, attrs: Mapping[str, Any]) -> None:
        if (place := self._place(event)) is not None:
            self._open[place].span.add_event(name, _with_values(attrs), _nanoseconds(event.ts))

    # --- plans

    def _plan(self, event: e.PlanStartedEvent | e.PlanResumedEvent) -> None:
        plan_id = event.plan_id or ""
        before = self._run_before(event) if isinstance(event, e.PlanResumedEvent) else ""
        self._outlines |= {(STEP, plan_id, step.id): step for step in event.steps}
        attrs = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.agent.name": event.goal[:GOAL_LENGTH]}
        attrs |= {"vibe.plan.id": plan_id, "vibe.plan.steps": len(event.steps)}
        links = [otel.Link(_root_context(plan_id, before))] if before else []
        self._begin((PLAN, plan_id), f"invoke_workflow {event.goal[:GOAL_LENGTH]}", event, attrs, links=links)

    def _plan_ended(self, event: e.PlanCompletedEvent | e.PlanPausedEvent) -> None:
        root = (PLAN, event.plan_id or "")
        for key in reversed([key for key, each in self._open.items() if each.within == root and key != root]):
            self._end(key, self._open[key].ended or event.ts)
        status = event.status if isinstance(event, e.PlanCompletedEvent) else "paused"
        error = (event.reason or status) if status in {"failed", "cancelled"} else ""
        self._end(root, event.ts, error, {"vibe.plan.outcome": status})

    def _step(self, event: e.PlanStepUpdateEvent) -> None:
        key = (STEP, event.plan_id or "", event.step_id)
        if event.status == "in_progress" and key not in self._open:
            outline = self._outlines.get(key, NO_STEP)
            before = (self._step_contexts.get((STEP, key[1], each)) for each in outline.depends_on)
            links = [otel.Link(context) for context in before if context is not None]
            attrs = {"vibe.step.id": event.step_id, "vibe.step.mode": outline.mode}
            opened = self._begin(key, f"step {event.step_id}", event, attrs, above=(PLAN, key[1]), links=links)
            self._step_contexts[key] = opened.span.get_span_context()
        elif event.status in ENDED:
            error = (event.reason or event.status) if event.status in {"failed", "cancelled"} else ""
            attrs = {"vibe.step.attempt": event.attempt, "vibe.step.status": event.status}
            self._end(key, event.ts, error, attrs)

    def _note_event(self, event: e.Event) -> None:
        name, attrs = NOTED[type(event)]
        self._note(event, name, {attribute: getattr(event, field) for attribute, field in attrs.items()})

    # --- agents and models

    def _agent_started(self, event: e.SubAgentStartedEvent) -> None:
        plans = any(tool.startswith("hand_in_") for tool in event.tools)
        who = event.agent or event.mode
        attrs = {"gen_ai.operation.name": "plan" if plans else "invoke_agent", "gen_ai.agent.name": who}
        attrs |= {"gen_ai.request.model": event.model, "gen_ai.conversation.id": event.session_id}
        above = (AGENT, event.parent_id or "")
        place = above if above in self._open else self._place(event)
        self._begin(_agent(event), f"plan {event.model}" if plans else f"invoke_agent {who}", event, attrs, above=place)

    def _prompt(self, event: e.PromptStartedEvent) -> None:
        key = _agent(event)
        attrs = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "vibe"}
        self._prompts[event.prompt_id] = key
        self._begin(key, "invoke_agent vibe", event, attrs | {"gen_ai.conversation.id": event.conversation_id})

    def _agent_ended(self, event: e.SubAgentFinishedEvent | e.PromptEndedEvent) -> None:
        key = _agent(event)
        if isinstance(event, e.PromptEndedEvent):
            key = self._prompts.pop(event.prompt_id, key)
        self._end_answered_call(key)
        if opened := self._open.get(key):
            for each in [each for each in self._open if each[1:2] == key[1:2] and each[0] in {CHAT, TOOL}]:
                self._end(each, event.ts, "cancelled")
            error = "" if event.outcome == "completed" else event.reason or event.outcome
            names = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
            self._end(key, event.ts, error, dict(zip(names, opened.tokens, strict=True)))

    def _add_message(self, event: e.Event, role: str, text: str) -> None:
        """Keep a message for the agent's next model call."""
        if self._content and (opened := self._open.get(_agent(event))):
            opened.said.append(_message(role, text))

    def _model(self, event: e.ModelStartedEvent) -> None:
        agent = _agent(event)
        self._end_answered_call(agent)
        attrs: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": event.model}
        provider = PROVIDERS.get(event.provider, event.provider) or None
        attrs |= {"gen_ai.provider.name": provider, "gen_ai.request.stream": True}
        if opened := self._open.get(agent):
            opened.attrs |= {"gen_ai.provider.name": provider, "gen_ai.request.model": event.model}
            attrs["gen_ai.input.messages"] = _content(opened.said) if self._content else None
            opened.said = []
        self._begin(_chat(agent), f"chat {event.model}", event, attrs, above=self._place(event))

    def _model_ended(self, event: e.ModelEndedEvent) -> None:
        key = _chat(_agent(event))
        if opened := self._open.get(key):
            opened.ended = event.ts
            opened.attrs |= {"gen_ai.response.time_to_first_chunk": event.first_token_s}
            if event.status != "ok":
                self._end(key, event.ts, event.status)

    def _answered(self, event: e.AssistantEvent) -> None:
        if opened := self._open.get(_chat(_agent(event))):
            said = _content([_message("assistant", event.text)]) if self._content else None
            opened.attrs |= {"gen_ai.response.finish_reasons": (event.finish_reason,), "gen_ai.output.messages": said}

    def _usage(self, event: e.UsageEvent) -> None:
        agent = _agent(event)
        if opened := self._open.get(agent):
            opened.tokens = [opened.tokens[0] + event.prompt_tokens, opened.tokens[1] + event.completion_tokens]
        counts = dict(zip(TOKENS, (event.prompt_tokens, event.completion_tokens, event.cached_tokens), strict=True))
        if chat := self._open.get(_chat(agent)):
            chat.attrs |= {f"gen_ai.usage.{kind}": count for kind, count in counts.items()}
            chat.attrs |= {"vibe.cost_usd": event.cost_usd}
        attrs = {"gen_ai.request.model": event.model, "gen_ai.operation.name": "chat"}
        for kind, count in counts.items():
            self._tokens[kind].add(count, _with_values(attrs))
        self._end_answered_call(agent)

    def _end_answered_call(self, agent: _Key) -> None:
        """End the model call of an agent if the model has answered."""
        key = _chat(agent)
        if (opened := self._open.get(key)) and opened.ended is not None:
            self._end(key, opened.ended)

    # --- tools and requests

    def _call(self, event: e.ToolCallEvent) -> None:
        self._end_answered_call(_agent(event))
        attrs: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.tool}
        attrs |= {"gen_ai.tool.call.id": event.tool_call_id, "gen_ai.tool.type": "function"}
        attrs["vibe.check"] = True if event.arguments.get("purpose") == "verify" else None
        attrs["gen_ai.tool.call.arguments"] = _content(event.arguments) if self._content else None
        self._begin(_tool(event), f"execute_tool {event.tool}", event, attrs, above=self._place(event))

    def _result(self, event: e.ToolResultEvent) -> None:
        self._add_message(event, "tool", event.content)
        attrs: dict[str, Any] = {"gen_ai.tool.call.result": _cut(event.content) if self._content else None}
        if isinstance(event.display, e.CommandDisplay):
            attrs["process.exit.code"] = event.display.exit_code
        self._end(_tool(event), event.ts, "" if event.status == "ok" else event.status, attrs)

    def _request(self, event: e.ApprovalRequestEvent | e.QuestionEvent) -> None:
        self._open_requests[event.request_id] = event

    def _decided(self, event: e.ApprovalDecisionEvent | e.AnswerEvent) -> None:
        kind, answer = "question", "cancelled" if isinstance(event, e.AnswerEvent) and event.cancelled else "answered"
        if isinstance(event, e.ApprovalDecisionEvent):
            kind, answer = "approval", event.decision
        self._note_answer(event, self._open_requests.pop(event.request_id, event).ts, kind, event.by, answer)

    def _decision(self, event: e.PlanDecisionEvent) -> None:
        key = f"{event.plan_id}:{event.decision_id}"
        if event.selections or event.by:
            asked = self._open_requests.pop(key, event)
            self._note_answer(event, asked.ts, "decision", event.by, ",".join(event.selections))
        else:
            self._open_requests[key] = event

    def _note_answer(self, event: e.Event, asked_at: float, kind: str, by: str, answer: str) -> None:
        attrs = {"vibe.request.kind": kind, "vibe.request.by": by, "vibe.request.answer": answer}
        self._note(event, f"vibe.{kind}", attrs)
        self._seconds["vibe.request.wait"].record(max(event.ts - asked_at, 0.0), {"vibe.request.kind": kind})

    _handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = MappingProxyType({
        e.PlanStartedEvent: _plan,
        e.PlanResumedEvent: _plan,
        e.PlanCompletedEvent: _plan_ended,
        e.PlanPausedEvent: _plan_ended,
        e.PlanStepUpdateEvent: _step,
        **dict.fromkeys(NOTED, _note_event),
        e.SubAgentStartedEvent: _agent_started,
        e.SubAgentFinishedEvent: _agent_ended,
        e.PromptStartedEvent: _prompt,
        e.PromptEndedEvent: _agent_ended,
        e.UserMessageEvent: lambda self, event: self._add_message(event, "user", event.text),
        e.ModelStartedEvent: _model,
        e.ModelEndedEvent: _model_ended,
        e.AssistantEvent: _answered,
        e.UsageEvent: _usage,
        e.ToolCallEvent: _call,
        e.ToolResultEvent: _result,
        e.ApprovalRequestEvent: _request,
        e.QuestionEvent: _request,
        e.ApprovalDecisionEvent: _decided,
        e.AnswerEvent: _decided,
        e.PlanDecisionEvent: _decision,
    })


def _agent(event: e.Event) -> _Key:
    """Return the key of the agent that an event is about. A conversation's own agent has only its session's id."""
    return (AGENT, event.subagent_id or f"/{event.session_id}")


def _chat(agent: _Key) -> _Key:
    """Return the key of an agent's model call."""
    return (CHAT, *agent[1:])


def _tool(event: e.ToolCallEvent | e.ToolResultEvent) -> _Key:
    """Return the key of a call. Ids of calls are unique only within an agent, and the host's have no agent."""
    return (TOOL, _agent(event)[1], event.tool_call_id)


def _id_from(size: int, *names: str) -> int:
    """Return an id of ``size`` bytes that follows from names. It is never 0, which means none."""
    return int.from_bytes(blake2b("\0".join(names).encode("utf-8", "replace"), digest_size=size).digest()) or 1


def _root_context(plan_id: str, source: str) -> otel.SpanContext:
    """Return the context of the root span of a plan's run."""
    trace, span = _id_from(16, PLAN, plan_id, source), _id_from(8, PLAN, plan_id, source)
    return otel.SpanContext(trace, span, is_remote=True, trace_flags=otel.TraceFlags(otel.TraceFlags.SAMPLED))


def _nanoseconds(ts: float) -> int:
    return int(ts * 1e9)


def _with_values(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that have a value."""
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": _cut(text)}]}


def _content(value: Any) -> str:
    """Return a value as JSON, cut to what may be sent."""
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:MOST_CONTENT].decode("utf-8", "ignore")
