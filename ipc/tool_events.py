"""Events of tool calls, of the requests they lead to, and of commands that run on; displays, their results as data."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from ipc.facts import BaseEvent


class _Display(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """The base of every display; a field that is left out has its default."""


class WrittenFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a call writes: ``added`` and ``removed`` count lines; ``created``: there was none before."""

    path: str
    added: int = 0
    removed: int = 0
    created: bool = False


class DiffDisplay(_Display, frozen=True, kw_only=True, tag="diff"):
    """Files written; the diff itself is the ``diff`` of the event."""

    files: tuple[WrittenFile, ...]


class CommandDisplay(_Display, frozen=True, kw_only=True, tag="command"):
    """A command line. ``exit_code`` None: it has not ended, or was stopped.

    ``output_files`` hold the whole of an output that the result shows in part; ``handle`` names a command that
    continues in the background.
    """

    command: str
    exit_code: int | None = None
    duration_s: float = 0.0
    timed_out: bool = False
    output_files: tuple[str, ...] = ()
    handle: str = ""


class TodoEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thing to do. ``status``: ``pending``, ``in_progress``, ``completed`` or ``cancelled``."""

    id: str
    content: str
    status: str = "pending"
    priority: str = "medium"


class TodoDisplay(_Display, frozen=True, kw_only=True, tag="todo"):
    """The agent's whole list of things to do, as it is now."""

    items: tuple[TodoEntry, ...] = ()


class FilesDisplay(_Display, frozen=True, kw_only=True, tag="files"):
    """The first files read or found; ``total`` counts all (None: there may be more, uncounted)."""

    paths: tuple[str, ...] = ()
    total: int | None = None


class ImageDisplay(_Display, frozen=True, kw_only=True, tag="image"):
    """A picture; the bytes are in the file, not in the event."""

    path: str
    media_type: str = ""
    size_bytes: int = 0


Display: TypeAlias = DiffDisplay | CommandDisplay | TodoDisplay | FilesDisplay | ImageDisplay
"""Every kind of display; a renderer that matches on it ends in ``assert_never``."""


# --- tools ----------------------------------------------------------------------------------------------------


class ToolCallEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.call"):
    """The model asked for a tool.

    ``arguments`` are as parsed, or ``{}`` with ``raw`` set if they were not a JSON object.
    """

    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    summary: str = ""
    raw: str | None = None


class ToolArgumentsEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.arguments"):
    """A piece of a call's arguments, as the model writes them; ``tool.call`` has all of them, once they are whole.

    ``text`` is JSON, not yet all of it; the first piece names the tool and may be blank, the last ones may be left out.
    ``index`` counts the calls of one answer; ``attempt`` as in AssistantDeltaEvent.
    """

    message_id: str
    index: int
    tool: str
    text: str = ""
    tool_call_id: str = ""
    attempt: int = 1


class ToolQueuedEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.queued"):
    """A call is queued: behind the ``calls`` before it in the same answer, or behind another open ``request``."""

    tool_call_id: str
    tool: str
    summary: str = ""
    waits_for: str = "calls"


class ToolStreamEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.stream"):
    """Output of a tool that is still running.

    ``stream``: ``stdout`` or ``stderr``, blank if both or neither. ``dropped_bytes`` before this text are not shown.
    """

    tool_call_id: str
    tool: str
    text: str
    stream: str = ""
    dropped_bytes: int = 0


class ToolResultEvent(BaseEvent, frozen=True, kw_only=True, tag="tool.result"):
    """A tool call ended. ``status``: ``ok``, ``error``, ``denied`` or ``cancelled``.

    ``diff`` is what it changed in a file, ``display`` the result as data (None: there is only the text). ``images``
    counts the pictures that the model is shown.
    """

    tool_call_id: str
    tool: str
    status: str
    content: str
    duration_s: float = 0.0
    files_changed: tuple[str, ...] = ()
    diff: str = ""
    display: Display | None = None
    images: int = 0


class ApprovalRequestEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.requested"):
    """A call waits for approval; ``diff`` is what it would change in a file.

    ``summary`` is the call on one line, ``preview`` what it would do as data (None: the arguments say it). ``covers``
    is what approval for the ``session``, or for ``always``, would allow from then on; if empty, only ``once`` is
    offered. ``edits``: approving all edits covers it. ``cwd`` is where it would run; ``confined`` says whether in a
    sandbox (None: it runs no command).
    """

    request_id: str
    tool_call_id: str
    tool: str
    arguments: dict[str, Any]
    rule: str
    reason: str = ""
    diff: str = ""
    summary: str = ""
    covers: tuple[str, ...] = ()
    edits: bool = False
    preview: Display | None = None
    cwd: str = ""
    confined: bool | None = None


OWN_ANSWERS = frozenset({"user", "timeout", "nobody", ""})
"""Values of ``by`` of a request that was not answered from elsewhere."""


class ApprovalDecisionEvent(BaseEvent, frozen=True, kw_only=True, tag="approval.decided"):
    """A request was answered. ``decision``: ``allow`` or ``deny``; ``scope``: ``once``, ``session`` or ``always``.

    ``by``: ``user`` (at the run's terminal), ``control`` or another name (a program, at its control address),
    ``timeout`` or ``nobody``.
    """

    request_id: str
    decision: str
    scope: str = "once"
    reason: str = ""
    by: str = "nobody"


class QuestionEvent(BaseEvent, frozen=True, kw_only=True, tag="question.asked"):
    """An agent asked the user something; each question: question, header, options, multi_select."""

    request_id: str
    questions: tuple[dict[str, Any], ...]
    tool_call_id: str = ""


class AnswerEvent(BaseEvent, frozen=True, kw_only=True, tag="question.answered"):
    """The user answered, or ``cancelled``; ``by`` as in ``approval.decided``."""

    request_id: str
    answers: tuple[dict[str, Any], ...] = ()
    cancelled: bool = False
    by: str = ""


class RequestWithdrawnEvent(BaseEvent, frozen=True, kw_only=True, tag="request.withdrawn"):
    """No answer is needed any more: the asker is gone. ``kind`` of the request: ``approval`` or ``question``."""

    request_id: str
    kind: str
    reason: str = ""


class BackgroundStartedEvent(BaseEvent, frozen=True, kw_only=True, tag="background.started"):
    """A command runs in the background while its agent works; ``handle`` names it for that agent."""

    handle: str
    command: str
    tool_call_id: str = ""


class BackgroundEndedEvent(BaseEvent, frozen=True, kw_only=True, tag="background.ended"):
    """A background command ended.

    ``status``: ``exited``, ``stopped``, ``timeout`` or ``lost`` (unknown how). ``output`` is the end of its output;
    ``output_files`` hold all of it, if long.
    """

    handle: str
    command: str
    status: str
    exit_code: int | None = None
    duration_s: float = 0.0
    output: str = ""
    output_files: tuple[str, ...] = ()
