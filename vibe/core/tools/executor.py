"""ToolExecutor: decides and runs the tool calls of one model answer, and gives every call a result."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby, takewhile
from pathlib import Path
from time import perf_counter
from typing import Any

from anyio import Semaphore
from msgspec import Struct, convert, field, structs, to_builtins
from pydantic import BaseModel

from ipc import events as e
from ipc.sink import EventSink
from vibe.core.hooks.runner import HookAnswer, HookCall
from vibe.core.messages import BUSY, Denial, Image, ToolCall, ToolMessage
from vibe.core.session.errors import WorkspaceLockedError
from vibe.core.session.write_turn import Turns, waits_told
from vibe.core.tools import ui
from vibe.core.tools.base import AnyTool, InvokeContext, ToolStreamLine
from vibe.core.tools.errors import ReadOnlyRefusedError, ToolError
from vibe.core.tools.gate import Approvals, CallRefusal, CallSubject, Gate
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.outputs import capped, encodable
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.questions import UnansweredError, announcing
from vibe.core.tools.schema import parse_arguments
from vibe.system.errors import VibeError, described, error_as
from vibe.system.racing import bare_task_group, foreign_code
from vibe.system.redaction import Mask, PieceMask, redact

SIDE_BY_SIDE = 8
"""The most read-only calls of one answer that run at once."""

CANCELLED = "The call was cancelled before it ended. It may be done in part or not at all: check before you repeat it."
"""The result of a call that was cancelled while it ran."""
NOT_STARTED = "The call was cancelled before it started; it has done nothing."
"""The result of a call that was cancelled before it ran."""

logger = logging.getLogger(__name__)


class ToolBatch(Struct, frozen=True, kw_only=True):
    """The outcome of the calls of one answer.

    ``messages`` are in call order, ``denied`` lists what was not allowed, ``files_changed`` holds workspace-relative
    paths, and ``ran`` the summaries of the calls that were run.
    """

    messages: tuple[ToolMessage, ...]
    denied: tuple[Denial, ...] = ()
    files_changed: tuple[str, ...] = ()
    ran: frozenset[str] = frozenset()


class _Told(Struct, frozen=True, kw_only=True):
    """The answers of a tool's methods about its result, by their names. A user's own tool may give anything."""

    format_result: str = ""
    diff: str = ""
    files_changed: tuple[str, ...] = ()
    denials: tuple[Denial, ...] = ()
    images: tuple[Image, ...] = ()


class _PendingCall(Struct, kw_only=True):
    """One call on its way to a result.

    ``problem`` says why it can't be run at all, and ``message`` is set once it has its result. ``paths`` are the
    resolved paths it touches, set once it is admitted. ``only_read`` stays true for as long as it can't have changed
    anything.
    """

    call: ToolCall
    name: str
    tool: AnyTool | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    args: BaseModel | None = None
    raw: str | None = None
    summary: str = ""
    problem: str = ""
    started: float | None = None
    message: ToolMessage | None = None
    denial: Denial | None = None
    told: _Told = _Told()
    paths: tuple[Path, ...] | None = None
    display: e.Display | None = None
    only_read: bool = True

    @property
    def read_only(self) -> bool:
        """Return whether it may run beside others. A call that can't be run never disturbs another."""
        return self.tool is None or bool(self.problem) or self.tool.read_only


class ToolExecutor:
    """Runs tool calls for one agent, in its workspace and within its permissions.

    Consecutive read-only calls run concurrently; all others run one after another, in call order. A tool that fails
    produces a result, and so does a call that is denied. ``context`` is what each call gets, as far as it is allowed
    to. ``turns`` is None if no other agent writes in the same folder.
    """

    def __init__(
        self,
        *,
        tools: ToolManager,
        context: InvokeContext,
        approvals: Approvals,
        sink: EventSink,
        guidance: CallGuidance | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._tools = tools
        self._guidance = guidance or CallGuidance()
        readable = [*([] if context.output_dir is None else [context.output_dir]), *self._guidance.readable]
        workspace = context.workspace.without_reading(unreadable_globs(tools))
        workspace = workspace.granting(readable, write=False) if readable else workspace
        self._context = structs.replace(
            context, workspace=workspace, skills=self._guidance.skills, memory=self._guidance.memory
        )
        self._gate = Gate(workspace, approvals, sink, context.confinement, self._preview)
        self._sink = sink
        self._turns = turns
        self._mask = Mask(context.environ)
        self.masked = self._mask.printed
        """Returns a text without the secrets in this agent's environment and anything that looks like a secret."""
        ask = context.user_input_callback
        self._ask = None if ask is None else partial(announcing, ask, sink)
        if context.background is not None:
            context.background.announce(sink, self.masked)

    async def run_all(self, calls: Sequence[ToolCall], record: Callable[[ToolMessage], None]) -> ToolBatch:
        """Run the calls of one answer.

        ``record`` gets each message in call order, as soon as all earlier ones are known. If this is cancelled, every
        call without a message first gets one with status ``cancelled``.
        """
        pending = [self._prepare(call) for call in calls]
        unrecorded = deque(pending)

        def flush() -> None:
            while unrecorded and (message := unrecorded[0].message) is not None:
                unrecorded.popleft()
                record(message)

        self._announce_queue(pending)
        try:
            for read_only, batch in groupby(pending, key=lambda item: item.read_only):
                if read_only:
                    await self._answer_side_by_side(tuple(batch), flush)
                    continue
                for item in batch:
                    await self._answer(item)
                    flush()
        except BaseException:
            for item in (item for item in pending if item.message is None):
                self._close(item, "cancelled", NOT_STARTED if item.started is None else CANCELLED)
            flush()
            raise
        return ToolBatch(
            messages=tuple(item.message for item in pending if item.message is not None),
            denied=tuple(denial for item in pending for denial in (item.denial, *item.told.denials) if denial),
            files_changed=tuple(dict.fromkeys(encodable(name) for item in pending for name in item.told.files_changed)),
            ran=frozenset(item.summary for item in pending if item.paths is not None and item.denial is None),
        )

    def _announce_queue(self, pending: Sequence[_PendingCall]) -> None:
        """Announce which calls wait for others of the same answer."""
        at_once = len(tuple(takewhile(lambda item: item.read_only, pending[:SIDE_BY_SIDE])))
        for item in pending[max(at_once, 1) :]:
            summary = self.masked(item.summary)
            self._sink.publish(e.ToolQueuedEvent(tool_call_id=item.call.id, tool=item.name, summary=summary))

    def _prepare(self, call: ToolCall) -> _PendingCall:
        """Find the tool and validate the arguments. Anything wrong becomes the call's ``problem``."""
        item = _PendingCall(call=call, name=call.name, summary=call.name, raw=call.arguments or None)
        if (refusal := self._guidance.refusal(call.name)) is not None:
            item.problem = self._deny(item, CallRefusal(by="rule", reason=refusal))
            with suppress(ToolError):
                item.arguments, item.raw = parse_arguments(item.name, call.arguments, {}), None
            return item
        try:
            item.tool = self._tools.get(call.name)
            item.name = item.tool.get_name()
            item.arguments = parse_arguments(item.name, call.arguments, item.tool.get_parameters())
            item.raw = None
            item.args = item.tool.parse(item.arguments)
        except BaseException as error:  # noqa: BLE001  the door of a tool call: a user's own validators run here
            item.problem = _error_text(item.name, error)
        _set_summary(item)
        return item

    async def _answer_side_by_side(self, members: Sequence[_PendingCall], flush: Callable[[], None]) -> None:
        limit = Semaphore(SIDE_BY_SIDE)

        async def answer(item: _PendingCall) -> None:
            async with limit:
                await self._answer(item)
                flush()

        async with bare_task_group() as group:
            for item in members:
                group.start_soon(answer, item)

    async def _answer(self, item: _PendingCall) -> None:
        """Decide on a call, run it, and always set its message."""
        item.started = perf_counter()
        _set_summary(item)  # Again, because the other calls may have changed what it means.
        event = e.ToolCallEvent(
            tool_call_id=item.call.id,
            tool=item.name,
            arguments=self._mask.inside(item.arguments),
            summary=self.masked(item.summary),
            raw=item.raw and self.masked(item.raw),
        )
        self._sink.publish(event)
        try:
            with foreign_code():
                status, content = await self._outcome(item)
        except WorkspaceLockedError as error:
            self._deny(item, CallRefusal(by=BUSY, reason=str(error)))
            status, content = "error", f"The call was not run: {error}"
        except UnansweredError as error:
            status, content = "denied", self._deny(item, CallRefusal(by="headless", reason=str(error)))
        except Exception as error:  # noqa: BLE001  the door of a tool call: whatever it raises is its result
            status, content = "error", _error_text(item.name, error)
            item.display = self._masked_display(error.display) if isinstance(error, ToolError) else None
        content = await capped(self._masked(item, content), item.call.id, self._context.output_dir)
        if item.paths is not None:
            await self._guidance.after_call(_hook_call(item), item.paths, status=status, result=content)
        self._close(item, status, content)

    async def _outcome(self, item: _PendingCall) -> tuple[str, str]:
        """Return the status and text of the call's result.

        Raises:
            ToolError: the tool could not do it.
            WorkspaceLockedError: others wrote in the folder for too long.
        """
        if item.problem or item.tool is None or item.args is None:
            return "error" if item.denial is None else "denied", item.problem
        subject, changed_by = await self._admit(item, item.tool, item.args)
        if isinstance(subject, CallRefusal):
            return "denied", self._deny(item, subject)
        item.paths = tuple(access.path for access in subject.accesses)
        item.only_read = subject.read_only or subject.assessment.only_reads
        try:
            content = await self._run(item, item.tool, self._context_of(item, subject))
        except ReadOnlyRefusedError as error:
            in_full = structs.replace(subject, read_only=False)
            reason = f"in a read-only sandbox {error.lacking}"
            again = await self._gate.ask_about(in_full, self._question(item), reason)
            if isinstance(again, CallRefusal):
                return "denied", f"{self._deny(item, again)}\nThere it printed:\n{error.printed}".rstrip()
            item.only_read = False
            content = await self._run(item, item.tool, self._context_of(item, again))
        if changed_by:
            content += f"\n\n(The hook {changed_by} changed the call; this was run: {item.summary})"
        if ignored := item.tool.remarks(item.arguments):
            content += f"\n\n(Not an argument of {item.name}, ignored: {', '.join(ignored)})"
        return "ok", content

    async def _admit(self, item: _PendingCall, tool: AnyTool, args: BaseModel) -> tuple[CallSubject | CallRefusal, str]:
        """Wait until rules, user and hooks let the call run.

        Return its subject, or the reason why it may not run, and which hooks changed it.
        """
        subject = await self._admit_by_rules(item, tool, args)
        if isinstance(subject, CallRefusal):
            return subject, ""
        answer = await self._guidance.before_call(_hook_call(item))
        if answer.objection is not None:
            return CallRefusal(by="rule", reason=answer.objection), ""
        if answer.changed:
            # Hooks grant no permission, so the changed call must be admitted in its own right.
            subject = await self._admit_by_rules(item, tool, _change_arguments(item, tool, answer))
        if answer.question and isinstance(subject, CallSubject) and not subject.was_approved:
            unremembered = structs.replace(subject, keys=())
            subject = await self._gate.ask_about(unremembered, self._question(item), answer.question, "each_time")
        return subject, answer.changed

    async def _admit_by_rules(self, item: _PendingCall, tool: AnyTool, args: BaseModel) -> CallSubject | CallRefusal:
        """Wait until the rules and the user let the call run and return its subject, or the reason why it may not."""
        restriction = None if tool.ends_work else self._guidance.restriction(item.name, item.arguments)
        if restriction is not None:
            return CallRefusal(by="rule", reason=restriction)
        return await self._gate.admit(tool, args, self._question(item))

    def _question(self, item: _PendingCall) -> e.ApprovalRequestEvent:
        """Return a draft of the approval request: all that is known without looking at what the call touches."""
        shown, summary, call_id = self._mask.inside(item.arguments), self.masked(item.summary), item.call.id
        return e.ApprovalRequestEvent(
            request_id="", tool_call_id=call_id, tool=item.name, arguments=shown, summary=summary, rule=""
        )

    def _preview(self, subject: CallSubject) -> CallOutlook:
        """Return what the call would do and change.

        The diff and display stay empty if the call touches a file that may hold secrets, or can't be previewed.

        Raises:
            ToolError: the call would fail with this error.
        """
        workspace, confinement = self._context.workspace, self._context.confinement
        is_open = subject.is_judged and not any(access.secret for access in subject.accesses)
        outlook = CallOutlook(cwd=str(workspace.root))
        try:
            confines = confinement is not None and confinement.choice().sandbox is not None
            outlook = subject.tool.outlook(subject.args, subject.granted(workspace), sandboxed=confines)
        except BaseException as error:  # a failed preview doesn't keep the user from being asked
            if is_open and isinstance(error, ToolError):
                raise
        diff = self.masked(encodable(outlook.diff)) if is_open else ""
        display = self._masked_display(outlook.display) if is_open else None
        return structs.replace(outlook, display=display, cwd=encodable(outlook.cwd), diff=diff)

    def _context_of(self, item: _PendingCall, subject: CallSubject) -> InvokeContext:
        return structs.replace(
            self._context,
            tool_call_id=item.call.id,
            workspace=subject.granted(self._context.workspace),
            user_input_callback=self._ask and self._ask(item.call.id),
            read_only=subject.read_only,
            only_reads=subject.assessment.only_reads,
        )

    async def _run(self, item: _PendingCall, tool: AnyTool, context: InvokeContext) -> str:
        takes_no_turn = tool.read_only or not tool.changes_files or item.only_read
        turns, masked = None if takes_no_turn else self._turns, PieceMask(self.masked)
        async with nullcontext() if turns is None else turns(waits_told(self._sink)):
            item.started = perf_counter()  # Waiting for a person or for a turn does not count.
            result = await tool.execute(item.args, context, lambda event: self._show(item, event, masked))
        item.told = convert({name: getattr(tool, name)(result) for name in _Told.__struct_fields__}, _Told)
        item.display = self._masked_display(tool.display(result))
        return item.told.format_result

    def _masked_display(self, display: e.Display | None) -> e.Display | None:
        """Return a display without secrets, and with text that can be encoded."""
        if display is None:
            return None
        plain = to_builtins(display)
        shown = self._mask.inside(json.loads(encodable(json.dumps(plain, ensure_ascii=False))))
        return display if shown == plain else convert(shown, type(display))

    def _masked(self, item: _PendingCall, content: str) -> str:
        """Return a result without secrets.

        The contents of files are worked on, so there only known secrets are masked, not whatever has the shape of one.
        Git's own files are the exception: remote addresses in them contain tokens, and nobody edits those.
        """
        is_work = item.paths and not any(".git" in path.parts or path.name == ".gitmodules" for path in item.paths)
        return self._mask.known(content) if is_work else self.masked(content)

    def _show(self, item: _PendingCall, event: ToolStreamLine, masked: PieceMask) -> None:
        text = masked(encodable(event.message), event.stream)
        told = e.ToolStreamEvent(
            tool_call_id=item.call.id, tool=item.name, text=text, stream=event.stream, dropped_bytes=event.dropped_bytes
        )
        self._sink.publish(told)

    def _deny(self, item: _PendingCall, refusal: CallRefusal) -> str:
        """Record a denial, without secrets a command line may hold, and return the text for the model."""
        summary, reason = redact(item.summary, self._context.environ), redact(refusal.reason, self._context.environ)
        item.denial = Denial(tool=item.name, summary=summary, reason=reason, by=refusal.by)
        return (
            f"Denied: {reason}. The call was not run; do not try to get round this: go on without it, or say what you "
            "would need."
        )

    def _close(self, item: _PendingCall, status: str, content: str) -> None:
        images = item.told.images if status == "ok" else ()
        item.message = ToolMessage(
            content=content, tool_call_id=item.call.id, name=item.call.name, status=status, images=images
        )
        if item.started is None:
            return
        event = e.ToolResultEvent(
            tool_call_id=item.call.id,
            tool=item.name,
            status=status,
            content=content,
            duration_s=perf_counter() - item.started,
            files_changed=tuple(map(encodable, item.told.files_changed)),
            diff=self.masked(encodable(item.told.diff)),
            display=item.display,
            images=len(item.message.images),
        )
        self._sink.publish(event)


def unreadable_globs(tools: ToolManager) -> list[str]:
    """Return the globs that ``read_file`` may not read, whether or not this agent has that tool."""
    tool = tools.visible.known.get("read_file")
    return [] if tool is None else tool.config.denylist


def _hook_call(item: _PendingCall) -> HookCall:
    return HookCall(tool_call_id=item.call.id, tool=item.name, arguments=item.arguments)


def _change_arguments(item: _PendingCall, tool: AnyTool, answer: HookAnswer) -> BaseModel:
    """Use the arguments that hooks substituted for the model's, and return them as the tool has parsed them.

    Raises:
        ToolError: the tool does not accept them.
    """
    item.arguments = answer.call.arguments
    with error_as(ToolError, lambda error: ToolError(f"the hook {answer.changed} changed the arguments, and {error}")):
        args = tool.parse(item.arguments)
    item.args = args
    _set_summary(item)
    return args


def _set_summary(item: _PendingCall) -> None:
    """Have the tool say what the call does, unless it can't be run."""
    if item.tool is None or item.args is None or item.problem:
        return
    event = ui.ToolCallView(tool_name=item.name, tool_call_id=item.call.id, args=item.args)
    try:
        item.summary = encodable(ui.call_summary(item.tool, event, item.tool.summarize(item.args)))
    except BaseException as error:  # noqa: BLE001  the door of a tool call
        item.problem = _error_text(item.name, error)


def _error_text(tool: str, error: BaseException) -> str:
    """Return the text of an error for the model. An unexpected error is a defect of the tool and is logged in full."""
    if isinstance(error, VibeError):
        return described(error, bare=True)
    logger.error("tool %s failed", tool, exc_info=error)
    return f"{tool} failed: {described(error)}"
