"""Describes the status and the result of a plan, in words for the model that asked and as data for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent
from planner.plan.status import MARKS, PlanStatus, StepStatus, reason_text, status_text
from planner.report.model import PlanReport, StepReportLine
from planner.state.state import State, StepState
from planner.store.current_plan import current_state
from planner.store.folder import PlanFolder
from vibe.app.engine.request_board import KINDS, Request, step_of, summary_of
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan.report import read_report
from vibe.app.watch.rows import fields
from vibe.core.messages import Outcome
from vibe.mcp_server.client import possible_answers
from vibe.mcp_server.served_plan import ServedPlan
from vibe.mcp_server.tools import ToolAnswer
from vibe.system.plain_text import both_ends, one_line, plain, plain_line, printable, shortened

MOST_STEPS = 200
"""Maximum number of steps listed. Of a longer plan, the most important ones are listed and the others counted."""
LINE_LENGTH = 300
REQUEST_LENGTH = 4_000
URGENT = [StepStatus(name) for name in ("in_progress", "needs_decision", "failed", "blocked", "pending")]
INTERRUPTED, PLANNING, WAITING = "interrupted", "planning", "waiting"

Document = dict[str, Any]


class StatusAnswer(Struct, frozen=True, kw_only=True):
    """The status of a plan. ``doing`` says what each running step is doing."""

    plan_id: str
    status: str
    is_running: bool
    detail: str = ""
    state: State = field(default_factory=State)
    requests: Sequence[Request] = ()
    doing: Mapping[str, str] = field(default_factory=dict[str, str])
    next: str = ""

    def answer(self) -> ToolAnswer:
        """Return the status as the answer to a call."""
        state = self.state
        listed = _most_important(state.steps.values())
        words = f": {one_line(self.detail, LINE_LENGTH)}" if self.detail else ""
        lines = [f"plan {self.plan_id} is {self.status}{words}"]
        if state.steps:
            lines[0] += f"; {_counted(state)}"
            lines += [self._line(step) for step in listed]
        if len(listed) < len(state.steps):
            lines.append(f"and {len(state.steps) - len(listed)} other steps")
        for request in self.requests:
            lines += _request_lines(request)
        data: Document = {
            "plan_id": self.plan_id,
            "status": self.status,
            "running": self.is_running,
            "detail": self.detail,
            "steps_done": state.counts[StepStatus.COMPLETED],
            "steps_total": len(state.steps),
            "counts": state.counted(),
            "steps": [self._step(step) for step in listed],
            "requests": [_request_data(request) for request in self.requests],
        }
        return ToolAnswer(text="\n".join([*lines, *([self.next] if self.next else [])]), data=data)

    def _line(self, step: StepState) -> str:
        outline = step.outline
        activity = self.doing.get(outline.id) or step.detail or reason_text(step.reason)
        words = f"{MARKS[step.status.value]} {outline.id}: {outline.title} ({step.status.value}) {activity}"
        return one_line(words, LINE_LENGTH)

    def _step(self, step: StepState) -> Document:
        return {
            "id": step.outline.id,
            "title": step.outline.title,
            "status": step.status.value,
            "attempt": step.attempt,
            "doing": self.doing.get(step.outline.id, ""),
            "reason": step.reason or "",
            "detail": shortened(step.detail, REQUEST_LENGTH),
        }


def served_status(plan: ServedPlan) -> ToolAnswer:
    """Return the status of a plan that runs in this process, or that never came to run."""
    view = plan.view.plans.get(plan.plan_id)
    state = view.state if view else State()
    requests = plan.board.open if plan.ended is None else []
    status, detail = state.status.value, ""
    if isinstance(plan.ended, RunRecord):
        status, detail = plan.ended.outcome.value, plan.ended.detail
    elif state.status is PlanStatus.IDLE:
        status = WAITING if requests else PLANNING
        detail = "" if requests else "its steps are about to be run" if plan.session else "it is being written"
    doing = {step.id: plain_line(step.doing()) for step in view.running.values()} if view else {}
    return StatusAnswer(
        plan_id=plan.plan_id,
        status=status,
        is_running=plan.ended is None,
        detail=detail,
        state=state,
        requests=requests,
        doing={step_id: shortened(line, LINE_LENGTH) for step_id, line in doing.items() if line},
    ).answer()


def saved_status(folder: PlanFolder) -> ToolAnswer:
    """Return the status of a plan according to its folder. Reads files.

    Raises:
        BrokenPlanError: the folder can't be read.
    """
    pid = folder.holder()
    _, state = current_state(folder)
    status, detail, advice = state.status.value, reason_text(state.reason), "plan_result tells what it came to"
    if state.status is PlanStatus.ACTIVE and pid is None:
        status = INTERRUPTED
    if state.status is PlanStatus.PAUSED:
        detail = status_text(status, state.reason)
    if status in {INTERRUPTED, PlanStatus.PAUSED.value, PlanStatus.IDLE.value}:
        advice = "plan_run with this plan_id goes on with it"
    if pid is not None:
        detail, advice = f"process {pid} runs it", ""
    return StatusAnswer(
        plan_id=folder.plan_id,
        status=status,
        is_running=pid is not None,
        detail="" if detail == status else detail,
        state=state,
        requests=[*state.open.values()],
        next=advice,
    ).answer()


def saved_result(folder: PlanFolder, most_characters: int) -> ToolAnswer:
    """Return the result of a plan according to its folder. Reads files.

    Raises:
        BrokenPlanError: the folder can't be read.
    """
    report, _ = read_report(folder)
    text = cut(_result_text(report), most_characters)
    data: Document = {
        **fields(report, "plan_id", "status", "outcome"),
        "reason": report.reason or "",
        "response": text,
        "workspace": report.workspace,
        "steps": [
            {
                **fields(step, "id", "title", "status"),
                "attempts": len(step.attempts),
                **fields(step, "duration_s", "files_changed"),
            }
            for step in report.steps
        ],
        "files_changed": report.files_changed,
        "usage": fields(report.spent, "prompt_tokens", "completion_tokens", "calls"),
        "cost_usd": report.spent.cost_usd,
        "duration_s": round(report.active_seconds, 3),
        "denied": [fields(call, "step_id", "tool", "reason") for call in report.denied],
        "warnings": report.warnings,
    }
    is_bad = report.outcome not in {None, Outcome.COMPLETED.value} and report.status != PlanStatus.PAUSED.value
    return ToolAnswer(text=text, data=data, is_error=is_bad)


def cut(response: str, limit: int) -> str:
    """Cut a response to ``limit`` characters and append a notice. A limit of 0 returns all of it."""
    if limit == 0 or len(response) <= limit:
        return response
    return f"{response[:limit]}...\n\n[TRUNCATED: Response was {len(response)} chars, limit is {limit}]"


def no_run_result(plan_id: str, ended: RunRecord) -> ToolAnswer:
    """Return the result of a plan that never came to run."""
    text = f"plan {plan_id} {ended.outcome.value}: {ended.detail}"
    data = {"plan_id": plan_id, "status": ended.outcome.value, "outcome": ended.outcome.value, "response": text}
    return ToolAnswer(text=text, data=data, is_error=True)


def _result_text(report: PlanReport) -> str:
    done = report.counts.get(StepStatus.COMPLETED.value, 0)
    cost = "" if report.spent.cost_usd is None else f", ${report.spent.cost_usd:.4f}"
    tokens = f", {report.spent.total_tokens:,} tokens{cost}" if report.spent.calls else ""
    spent = f", {report.active_seconds:.1f} s{tokens}"
    how = status_text(report.status, report.reason)
    head = f"plan {report.plan_id} is {how}: {done}/{len(report.steps)} steps are done{spent}"
    parts = [head, *map(_step_text, report.steps)]
    parts += ["changed files: " + ", ".join(map(printable, report.files_changed))] if report.files_changed else []
    parts += [f"denied in {call.step_id}: {call.summary or call.tool}: {call.reason}" for call in report.denied]
    parts += [f"warning: {warning}" for warning in report.warnings]
    return plain("\n\n".join(parts))


def _step_text(step: StepReportLine) -> str:
    why = step.detail or ("" if step.reason == step.status else reason_text(step.reason))
    head = f"## {step.id}: {step.title} ({': '.join(filter(None, (step.status, why)))})"
    return "\n".join(part for part in (head, step.said.strip(), step.printed.strip()) if part)


def _most_important(steps: Iterable[StepState]) -> list[StepState]:
    """Return the steps in order, at most ``MOST_STEPS``.

    If there are more, those that run, wait for an answer or failed are chosen first.
    """
    known = list(steps)
    if len(known) <= MOST_STEPS:
        return known
    important = sorted(known, key=lambda step: [*URGENT, step.status].index(step.status))[:MOST_STEPS]
    chosen = {step.outline.id for step in important}
    return [step for step in known if step.outline.id in chosen]


def _counted(state: State) -> str:
    others = [f"{count} {name}" for name, count in state.counted().items() if name not in {"completed", "pending"}]
    return ", ".join([f"{state.counts[StepStatus.COMPLETED]}/{len(state.steps)} steps are done", *others])


def _request_data(request: Request) -> Document:
    """Return a request as data, with its possible answers."""
    document: Document = {
        "request_id": request.request_id,
        "kind": KINDS[type(request)][0],
        "step_id": step_of(request),
        "summary": summary_of(request),
        "answers": dict(possible_answers(request)),
    }
    match request:
        case ApprovalRequestEvent():
            call = fields(request, "tool", "arguments", "reason", "cwd")
            return {**document, **call, "diff": both_ends(request.diff, REQUEST_LENGTH)}
        case QuestionEvent():
            return {**document, "questions": request.questions}
        case PlanDecisionEvent():
            return {**document, "multi_select": request.multi_select}


def _request_lines(request: Request) -> list[str]:
    step_id = step_of(request)
    where = f" of step {step_id}" if step_id else ""
    answers = possible_answers(request).items()
    words = " | ".join(name if name == label else f"{name} ({label})" for name, label in answers)
    free = ", or your own words" if isinstance(request, QuestionEvent) else ""
    offered = one_line(words, LINE_LENGTH) + free
    return [
        f"? {KINDS[type(request)][0]}{where}: {shortened(plain(summary_of(request)), REQUEST_LENGTH)}",
        f"  answer with plan_decide, request_id {request.request_id}: {offered}",
    ]
