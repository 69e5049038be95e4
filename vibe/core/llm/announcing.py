"""CallAnnouncer: publishes the events of a model call: its start, its answer as it grows, and its end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from uuid import uuid4

from msgspec import Struct, field

from ipc.events import (
    AssistantDeltaEvent,
    ModelEndedEvent,
    ModelStartedEvent,
    ReasoningDeltaEvent,
    ToolArgumentsEvent,
    WarningEvent,
)
from ipc.sink import EventSink
from vibe.core.config.models import ModelConfig
from vibe.core.llm.port import CallDelta, Delta, Notice, RetryNotice
from vibe.core.llm.pricing import configured_cost
from vibe.core.llm.tokens import CHARS_PER_TOKEN
from vibe.core.messages import Spending, Spent, Usage, total_of
from vibe.system.redaction import PieceMask

WAIT = "model.wait"
"""The code of the warning that a model call waits for its turn; the agent's next event ends the wait."""
WAITED = "model.waited"
"""The code of the warning that the call's turn has come."""


ARGUMENTS_BATCH = 64
"""Characters of a call's arguments that are collected before the whole words among them are announced."""
_LINE_END = r"\n"
"""A line end as it is written inside a JSON string."""


class CallAnnouncer(Struct, eq=False):
    """A ``ModelObserver`` that announces a call with every retry and long wait.

    It also announces the growing answer: text, reasoning, and the arguments of tool calls with secrets ``masked``. If
    ``masked`` is None, the answer is not announced while it grows. ``purpose`` is that of ``model.started``.
    """

    sink: EventSink
    model: ModelConfig
    masked: Callable[[str], str] | None
    purpose: str = "turn"
    message_id: str = field(default_factory=lambda: uuid4().hex)
    _pieces: list[str] = field(default_factory=list[str])
    _calls: dict[int, _Arguments] = field(default_factory=dict[int, "_Arguments"])
    _attempt: int = 1
    _started: float = 0.0
    _first: float | None = None
    _context_tokens: int = 0
    _characters: int = 0
    broken_off: Spending = Spending()
    """An estimate of the answers that broke off, for which the provider charges without saying how much."""

    @contextmanager
    def announced(self, context_tokens: int) -> Generator[None]:
        """Announce the start and the end of the call made in the block; ``context_tokens`` estimates its request."""
        self._started = began = monotonic()
        self._context_tokens = context_tokens
        event = ModelStartedEvent(
            message_id=self.message_id,
            model=self.model.key,
            context_tokens=context_tokens,
            context_limit=self.model.context_size,
            purpose=self.purpose,
            provider=self.model.provider,
        )
        self.sink.publish(event)
        status = "cancelled"
        try:
            yield
            status = "ok"
        except Exception:
            status = "failed"
            raise
        finally:
            event = ModelEndedEvent(
                message_id=self.message_id,
                model=self.model.key,
                status=status,
                attempt=self._attempt,
                first_token_s=self._first,
                duration_s=monotonic() - began,
            )
            self.sink.publish(event)
            if status != "ok":
                self._break_off()

    def notice(self, notice: Notice) -> None:
        """Announce a retry, or the start or the end of a wait."""
        if isinstance(notice, RetryNotice):
            self._begin(notice.attempt + 1)
            code, wait_seconds = "model.retry", notice.wait_seconds
            what = "model not reachable" if notice.unreachable else "model call failed"
            message = f"{what} · try {notice.attempt + 1} in {notice.wait_seconds:.1f} s · {notice.reason}"
        elif notice.waited_seconds is None:
            code, wait_seconds = WAIT, None
            why = "max_concurrency calls are under way, or it asked for a pause"
            message = f"a model call waits for its turn at provider {notice.provider!r}: {why}"
        else:
            code, wait_seconds = WAITED, None
            message = f"a model call had its turn after {notice.waited_seconds:.1f} s"
        self.sink.publish(WarningEvent(code=code, message=message, wait_seconds=wait_seconds))

    def _begin(self, attempt: int) -> None:
        """Begin another try: nothing of the answer that broke off is part of the next."""
        self._break_off()
        self._attempt, self._pieces, self._calls = attempt, [], {}

    def _break_off(self) -> None:
        """Count the answer that broke off, if one had begun."""
        if self._first is not None:
            written = -(-self._characters // CHARS_PER_TOKEN)
            usage = Usage(prompt_tokens=self._context_tokens, completion_tokens=written, calls=1)
            self.broken_off = total_of((self.broken_off, Spending(usage, configured_cost(self.model, usage))))
        self._first, self._characters = None, 0

    def lost(self, other: Spent) -> Spending:
        """Return what broke off. If no price is set for the model, it costs what the ``other`` did on average."""
        usage, tokens = self.broken_off.usage, other.usage.total_tokens
        if self.broken_off.cost_usd is None and other.cost_usd is not None and tokens:
            self.broken_off = Spending(usage, other.cost_usd * usage.total_tokens / tokens)
        return self.broken_off

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._pieces)

    def delta(self, delta: Delta) -> None:
        """Announce one piece of the answer, unless the growing answer is kept back; note when the first one came."""
        if delta.attempt != self._attempt:
            self._begin(delta.attempt)
        if self._first is None:
            self._first = monotonic() - self._started
        self._characters += len(delta.text) + len(delta.reasoning) + len(delta.call.arguments if delta.call else "")
        if self.masked is None:
            return
        if delta.text:
            self._pieces.append(delta.text)
            self.sink.publish(AssistantDeltaEvent(message_id=self.message_id, text=delta.text, attempt=delta.attempt))
        if delta.reasoning:
            event = ReasoningDeltaEvent(message_id=self.message_id, text=delta.reasoning, attempt=delta.attempt)
            self.sink.publish(event)
        if delta.call is not None:
            self._announce_arguments(delta.call, self.masked)

    def _announce_arguments(self, piece: CallDelta, masked: Callable[[str], str]) -> None:
        """Announce a call when its first piece arrives, and then its arguments in batches."""
        is_first = piece.index not in self._calls
        text = self._calls.setdefault(piece.index, _Arguments(PieceMask(masked))).take(piece.arguments)
        if is_first or text:
            event = ToolArgumentsEvent(
                message_id=self.message_id,
                index=piece.index,
                tool=piece.name,
                text=text,
                tool_call_id=piece.id,
                attempt=self._attempt,
            )
            self.sink.publish(event)


class _Arguments(Struct):
    """The arguments of one call as they stream in. ``waiting`` has not been announced yet."""

    masked: PieceMask
    waiting: str = ""

    def take(self, text: str) -> str:
        """Add a piece, and return what can be announced now: whole words with secrets masked, or nothing."""
        self.waiting += text
        if len(self.waiting) < ARGUMENTS_BATCH:
            return ""
        word, line = self.waiting.rfind(" "), self.waiting.rfind(_LINE_END)
        cut = max(word + 1, line + len(_LINE_END) if line >= 0 else 0)
        piece, self.waiting = self.waiting[:cut], self.waiting[cut:]
        return self.masked(piece)
