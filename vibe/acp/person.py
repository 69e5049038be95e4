"""EditorPerson: asks the person at an editor for approvals, answers and choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args
from uuid import uuid4

from acp import RequestError, schema
from acp.helpers import start_tool_call, update_tool_call

from ipc.commands import ApprovalScope
from ipc.events import ApprovalRequestEvent
from vibe.acp.updates import SessionChannel, changes_of, kind_of, locations_of, reason_of, text_of, title_of
from vibe.core.schemas import list_of
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import Question, QuestionAnswer
from vibe.system.plain_text import one_line, plain, plain_line, some_of

SCOPES: Mapping[str, ApprovalScope] = MappingProxyType({scope: scope for scope in get_args(ApprovalScope)})
NO = "no"
"""The id of the option for a refusal."""
PICK = "pick:"
"""Prefix of the ids of other options, so that none equals the one for a refusal."""
BY = "editor"
"""The name of whoever answers at an editor, in events."""
CHOSEN, TYPED = "answer", "other"
"""Prefixes of the names of a form's fields."""
MOST_COVERED = 3
"""The most calls named in an option that approves them."""
LABEL_LENGTH = 100
"""The most characters of an option's label."""


class EditorPerson:
    """Asks the person through a session's channel.

    ``approved`` is called with each call whose command line they approve. An editor that ``has_forms`` shows all
    questions in one form. Otherwise they are put one by one, as choices.
    """

    def __init__(self, channel: SessionChannel, approved: Callable[[str, str], object], *, has_forms: bool) -> None:
        self._channel = channel
        self._approved = approved
        self._has_forms = has_forms

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer. No answer counts as a no."""
        channel = self._channel
        why = request.reason or request.rule
        call = schema.ToolCallUpdate(
            tool_call_id=channel.updates.call_id(request.tool_call_id),
            title=title_of(request),
            kind=kind_of(request.tool),
            status="pending",
            content=[*text_of(plain_line(why)), *changes_of(request.diff, request, channel.root)],
            locations=locations_of(request.arguments, channel.root),
            raw_input=request.arguments,
        )
        chosen, problem = await self._request(call, _permission_options(request))
        scope = SCOPES.get(chosen)
        if scope is None:
            return ApprovalAnswer(allow=False, reason=problem, by=BY)
        command = request.arguments.get("command")
        if isinstance(command, str):
            self._approved(request.tool_call_id, command)
        return ApprovalAnswer(allow=True, scope=scope, by=BY)

    async def __call__(
        self,
        questions: Sequence[Question],
        request_id: str = "",  # noqa: ARG002  the editor knows a question by another id
        *,
        lasts: bool = False,
    ) -> Sequence[QuestionAnswer] | None:
        """Return an answer to each question, or None if the person declines.

        If ``lasts``, the answer also counts later, so an editor that approves single calls by itself must not give it.
        """
        if self._has_forms:
            return await self._ask_form(questions)
        answers: list[QuestionAnswer] = []
        for question in questions:
            text = "\n".join(f"- {one.label}: {one.description}" for one in question.options if one.description)
            labels = {str(at): one.label for at, one in enumerate(question.options)}
            chosen = await self.choose(question.question, text, labels, kind="allow_always" if lasts else "allow_once")
            if chosen is None:
                return None
            answers.append(QuestionAnswer(question=question.question, answer=labels[chosen], by=BY))
        return answers

    async def _ask_form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        fields = {name: field for at, one in enumerate(questions) for name, field in _fields(at, one)}
        message = plain("\n".join(one.question for one in questions))
        form = schema.ElicitationFormSessionMode(
            session_id=self._channel.session_id,
            requested_schema=schema.ElicitationSchema.model_validate({"type": "object", "properties": fields}),
        )
        await self._channel.flush()
        try:
            answer = await self._channel.client.create_elicitation(message, form)
        except (RequestError, ConnectionError, ValueError):
            return None
        content = (answer.content or {}) if isinstance(answer, schema.AcceptElicitationResponse) else {}
        answers = [_answer(at, one, content) for at, one in enumerate(questions)]
        return None if None in answers else [one for one in answers if one is not None]

    async def choose(
        self,
        question: str,
        details: str,
        options: Mapping[str, str],
        no: str = "None of these",
        *,
        kind: schema.PermissionOptionKind = "allow_once",
    ) -> str | None:
        """Return the key of the option that the person picks, or None if they pick none.

        The protocol can only ask about tool calls, so the editor is shown one whose result is the answer.
        """
        question_id, title, content = f"question-{uuid4().hex}", plain_line(question), text_of(details)
        self._channel.put(start_tool_call(question_id, title, kind="other", status="pending", content=content))
        call = schema.ToolCallUpdate(
            tool_call_id=question_id, title=title, kind="other", status="pending", content=content
        )
        offered = [_option(f"{PICK}{key}", label, kind) for key, label in options.items()]
        picked: str | None = None
        try:
            chosen, _ = await self._request(call, [*offered, _option(NO, no, "reject_once")])
            picked = chosen.removeprefix(PICK) if chosen.startswith(PICK) else None
        finally:
            answer = None if picked is None else text_of(options[picked])
            status = "failed" if picked is None else "completed"
            self._channel.put(update_tool_call(question_id, status=status, content=answer))
        return picked

    async def _request(self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> tuple[str, str]:
        """Return the id of the chosen option, or an empty id and the reason why none was chosen."""
        channel = self._channel
        await channel.flush()
        try:
            answer = await channel.client.request_permission(channel.session_id, call, options)
        except (RequestError, ConnectionError, ValueError) as error:
            return "", f"the editor could not ask: {reason_of(error)}"
        if not isinstance(answer.outcome, schema.AllowedOutcome):
            channel.stop()
            return "", "the work was stopped"
        chosen = answer.outcome.option_id
        return (chosen, "") if chosen in {option.option_id for option in options} else ("", "no option was chosen")


def _fields(at: int, question: Question) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the fields for a question: one to choose in, and one for an answer in other words."""
    title = plain_line(question.question)
    offered = [
        {"const": one.label, "title": plain_line(f"{one.label}: {one.description}" if one.description else one.label)}
        for one in question.options
    ]
    if question.multi_select:
        yield f"{CHOSEN}{at}", {"type": "array", "title": title, "items": {"anyOf": offered}}
    elif not question.typed:
        yield f"{CHOSEN}{at}", {"type": "string", "title": title, "oneOf": offered}
    yield f"{TYPED}{at}", {"type": "string", "title": title if question.typed else f"{title} (type your answer)"}


def _answer(at: int, question: Question, content: Mapping[str, Any]) -> QuestionAnswer | None:
    """Return the answer to a question in a form's content. Typed text takes precedence over a choice."""
    typed, chosen = content.get(f"{TYPED}{at}"), content.get(f"{CHOSEN}{at}")
    if isinstance(typed, str) and typed.strip():
        return QuestionAnswer(question=question.question, answer=typed.strip(), is_other=True, by=BY)
    labels = [one.label for one in question.options if one.label in list_of(chosen)]
    return QuestionAnswer(question=question.question, answer=", ".join(labels), by=BY) if labels else None


def _permission_options(request: ApprovalRequestEvent) -> list[schema.PermissionOption]:
    options = [_option("once", "Yes", "allow_once")]
    if request.covers:
        covered = some_of(map(plain_line, request.covers), MOST_COVERED)
        options.append(_option("session", f"Yes, in this session always: {covered}", "allow_always"))
    if request.edits:
        options.append(_option("edits", "Yes, to all edits of this session", "allow_always"))
    if request.covers:
        options.append(_option("always", "Yes, in this folder always", "allow_always"))
    return [*options, _option(NO, "No", "reject_once")]


def _option(option_id: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    return schema.PermissionOption(option_id=option_id, name=one_line(name, LABEL_LENGTH), kind=kind)
