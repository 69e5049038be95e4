"""The executor that does steps in this process, by a subagent or by a plain command."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import CancelScope, Event, get_cancelled_exc_class, move_on_after, to_thread
from msgspec import Struct, field, structs

from subagents.agent.agent_factory import AgentState
from subagents.agent.run_context import AgentContext
from subagents.agent.subagent import SubAgent, SubAgentConfig, earlier_subagents
from subagents.executor import StepResult, StepTask, StopSignal, ended_by
from subagents.step.command_runner import LOG_FILE, HostCommands, Purpose, failure_of, run_commands
from subagents.step.config_files import ConfigChange
from subagents.step.prompts import REPAIR_HEADINGS, config_message, first_message, repair_message, result_files
from subagents.step.tamper_guard import ConcurrentClaims, RunClaims, TamperGuard, record_name
from vibe.core.agent_loop import ActResult
from vibe.core.agents.models import AgentProfile
from vibe.core.llm.errors import ModelRequestError
from vibe.core.messages import Outcome, Spending, Spent, total_of
from vibe.core.modes import WRITE_TOOLS
from vibe.core.session.folder import Transcript, TranscriptError
from vibe.core.tools.background import BackgroundCommands, background_commands
from vibe.core.tools.files.text_files import DISK
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.permissions import ApprovalMode
from vibe.shell.sandbox.settings import Network
from vibe.system.failing_lines import failing_part
from vibe.system.plain_text import some_of
from vibe.system.process import kill_marked
from vibe.system.racing import bare_task_group

CHECKABLE = frozenset({Outcome.COMPLETED, Outcome.BLOCKED})
"""Outcomes after which the checks decide. A blocked agent may have done the work without the call that was denied."""
SHOWN_FILES = 5
"""Changed files that a failure's detail names."""
OUT_OF_TIME = ActResult(outcome=Outcome.LIMIT, reason="timeout", detail="the step ran out of time")


class _Finding(Struct, frozen=True, kw_only=True):
    """Something wrong with a step's work: ``prompt`` asks its agent for a repair, ``detail`` is for people.

    ``printed`` is a part of the failed check's output.
    """

    prompt: str
    detail: str
    printed: str = ""


class AgentStep:
    """One attempt by an agent: the subagent's work, the checks, and the repairs between them.

    If a file that the checks consist of has changed, the step fails. If a config file of the checks has changed, no
    check is run, and the agent is asked to repair that as it would a failed check.
    """

    def __init__(self, task: StepTask, agent: SubAgent, commands: HostCommands, guard: TamperGuard) -> None:
        self._task = task
        self._step = task.step
        self._agent = agent
        self._commands = commands
        self._guard = guard
        self._acted = OUT_OF_TIME
        self._is_over = False
        self._printed = ""
        self._files_changed: dict[str, None] = {}

    async def steer(self, text: str, by: str = "") -> bool:
        """Send the agent a message, which it reads before the step completes.

        Return False if the step is over already, or the message is too long.
        """
        return not self._is_over and self._agent.steer(text, by)

    async def run(self, stop: StopSignal) -> StepResult:
        """Work until the step has ended, is stopped or runs out of time. Its end is announced in every case."""
        outcome, reason = Outcome.INTERRUPTED, "stopped"  # what is announced if the step is cancelled
        try:
            with move_on_after(self._step.timeout_seconds) as scope:
                await self._work_until_checked(stop)
                self._fail_if_all_writes_refused()
            if scope.cancelled_caught:  # the timeout counts, whatever the agent has reported
                self._set_outcome(OUT_OF_TIME.outcome, OUT_OF_TIME.reason, OUT_OF_TIME.detail)
            outcome, reason = self._acted.outcome, self._acted.reason
        except Exception:
            outcome, reason = Outcome.FAILED, None
            raise
        finally:
            self._is_over = True
            self._agent.finish(outcome.value, reason)
        return self._result()

    async def _work_until_checked(self, stop: StopSignal) -> None:
        if await self._fail_if_tampered():
            return  # an earlier attempt did it, so this one is not worth a token
        prompt, earlier = first_message(self._task), await self._config_finding()
        self._record(await self._agent.execute(f"{prompt}\n\n{earlier.prompt}" if earlier else prompt, stop))
        while self._acted.outcome in CHECKABLE:
            finding = await self._run_checks() if self._step.verify else None
            if self._step.verify and await self._fail_if_tampered():
                return
            if finding is None and self._agent.has_unread:
                self._record(await self._agent.resume())
                continue
            if finding is None:
                self._is_over = True
                if self._step.verify:
                    self._set_outcome(Outcome.COMPLETED, None, "")
                return
            if self._acted.outcome is Outcome.BLOCKED:
                return  # a repair would be blocked, too, because what the work needs is an approval
            if self._repairs() >= self._step.max_repairs:
                self._set_outcome(Outcome.FAILED, "verify", finding.detail)
                self._printed = finding.printed
                return
            self._record(await self._agent.continue_with(finding.prompt))

    def _result(self) -> StepResult:
        acted = self._acted
        return StepResult(
            outcome=acted.outcome,
            reason=acted.reason,
            detail=acted.detail,
            summary=acted.text,
            printed=self._printed,
            output=acted.output if acted.outcome is Outcome.COMPLETED else None,
            files_changed=tuple(self._files_changed),
            **structs.asdict(total_of(self._agent.agents)),
            turns=self._agent.conversation.turns,
            denied=acted.denied,
            agent_id=self._agent.subagent_id,
            agents=self._agent.agents,
            model=self._agent.model,
            provider_refused=acted.error is not None and acted.error.halts,
            any_model=acted.exhausted not in {"", self._agent.account}
            or (isinstance(acted.error, ModelRequestError) and not acted.error.is_about_model),
        )

    async def _run_checks(self) -> _Finding | None:
        """Run the checks and return a finding about the first that fails, or None.

        No further check is run once a file of the checks, or a config file, has changed.
        """
        for command in self._step.verify:
            if await self._fail_if_tampered():
                return None
            if (reconfigured := await self._config_finding()) is not None:
                return reconfigured
            result = await self._commands.run(command, purpose=Purpose.VERIFY)
            await to_thread.run_sync(self._guard.checked)
            if not result.is_success:
                repairs = self._repairs()
                after = f" after {repairs} {'repair' if repairs == 1 else 'repairs'}" if repairs else ""
                return _Finding(
                    prompt=repair_message(self._task, command, result),
                    detail=self._commands.masked(failure_of(command, result, after)),
                    printed=failing_part(self._commands.masked(result.printed)),
                )
        return await self._config_finding()

    async def _config_finding(self) -> _Finding | None:
        """Return a finding about changed config files of the checks, or None if none have changed."""
        found = await to_thread.run_sync(self._guard.config_changes)
        if not found:
            return None
        return _Finding(prompt=config_message(self._task, found), detail=_config_detail(found))

    async def _fail_if_tampered(self) -> bool:
        """Return whether a file of the checks was changed, and if so fail the step."""
        changed = await to_thread.run_sync(self._guard.tampered)
        if changed:
            detail = (
                f"{some_of(changed, SHOWN_FILES)}, which this step's checks run, changed since the step "
                "first started: restore it, or list it in `writes` if the step is meant to change it"
            )
            self._set_outcome(Outcome.FAILED, "verify", detail)
        return bool(changed)

    def _repairs(self) -> int:
        """Return how many repairs were asked for. They are counted in the conversation, which survives a resume."""
        return sum(prompt.content.startswith(REPAIR_HEADINGS) for prompt in self._agent.conversation.prompts)

    def _record(self, acted: ActResult) -> None:
        self._acted = acted
        self._files_changed.update(dict.fromkeys(acted.files_changed))

    def _fail_if_all_writes_refused(self) -> None:
        """Fail a completed step without checks that changed nothing because rules denied its writes."""
        if self._step.verify:
            return  # the checks have decided
        refused = [one for one in self._acted.denied if one.by == "rule" and one.tool in WRITE_TOOLS]
        if self._acted.outcome is Outcome.COMPLETED and refused and not self._files_changed:
            detail = f"every write was refused, so the step changed nothing: {refused[0].reason}"
            self._set_outcome(Outcome.FAILED, "refused", detail)

    def _set_outcome(self, outcome: Outcome, reason: str | None, detail: str) -> None:
        self._acted = structs.replace(self._acted, outcome=outcome, reason=reason, detail=detail)


def _config_detail(found: Sequence[ConfigChange]) -> str:
    is_one = len(found) == 1
    return (
        f"{some_of([f'{one.name} {one.how}' for one in found], SHOWN_FILES)} in this step, and "
        f"{'it configures' if is_one else 'they configure'} "
        f"its checks: restore {'it' if is_one else 'them'}, or list {'it' if is_one else 'them'} in `writes` if the "
        f"step is meant to write {'it' if is_one else 'them'}"
    )


ATTEMPT_MARK = "_VIBE_ATTEMPT"
"""The environment variable that marks every process an attempt starts, whichever process the attempt runs in."""

GRACE_SECONDS = 0.5
"""Seconds that commands have to end by themselves once their step is cancelled."""
KILL_SECONDS = 5.0
"""Seconds that killing them may take."""
HAND_IN_TEXT = "Hand in the result of your step. This ends it: call it once all else is done."

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LocalExecutor(Struct, eq=False):
    """Does steps in this process.

    ``_step_folder`` returns the folder in which a step keeps its conversation. ``_claims`` also knows the steps of the
    run that other executors do.
    """

    _context: AgentContext
    _step_folder: Callable[[str], Path]
    _claims: ConcurrentClaims = field(default_factory=RunClaims)

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do one attempt at a step within its time limit; see ``StepExecutor``."""
        for job in task.setup_jobs(task.setup):
            done = await self.run(job, stop)
            if done.outcome is not Outcome.COMPLETED:
                return done if done.outcome is Outcome.INTERRUPTED else job.setup_failed(done)
        started = self._context.run.clock()
        mark = f"{await to_thread.run_sync(self._step_folder, task.step_id)}:{task.attempt}"
        if task.continued:
            await kill_marked(ATTEMPT_MARK, mark)
        context = self._context_of(task, mark)
        commands = HostCommands(context, task, lambda: self._step_folder(task.step_id) / LOG_FILE)
        try:
            with self._claims.beside(task) as others:
                if task.has_agent:
                    work = partial(self._run_agent, context, task, stop, commands, others)
                else:
                    work = partial(run_commands, task, commands)
                ended = await without_leftovers(work, mark)
        except Exception as error:
            logger.exception("step %s raised", task.step_id)
            ended = ended_by(error)
        return structs.replace(ended, duration_s=self._context.run.clock() - started)

    async def _run_agent(
        self,
        context: AgentContext,
        task: StepTask,
        stop: StopSignal,
        commands: HostCommands,
        others: Callable[[], Sequence[str]],
    ) -> StepResult:
        guard = await to_thread.run_sync(self._guard, context.workspace.root, task, others)
        async with background_commands() as background:
            agent = await to_thread.run_sync(self._agent, _within_claim(context, task, guard), task, background)
            step = AgentStep(task, agent, commands, guard)
            with context.run.steering.heard_by(task.step_id, step.steer, lambda: agent.subagent_id) as early:
                agent.deliver((*task.told, *early))
                return await step.run(stop)

    def _guard(self, root: Path, task: StepTask, others: Callable[[], Sequence[str]]) -> TamperGuard:
        return TamperGuard(task, root, self._step_folder(task.step_id) / record_name(task), others)

    def _agent(self, context: AgentContext, task: StepTask, background: BackgroundCommands) -> SubAgent:
        """Make the attempt's subagent, with its earlier conversation if it was interrupted. Reads and writes files."""
        folder = self._step_folder(task.step_id)
        conversation = Transcript.open(folder / transcript_name(task.attempt, task.conversation))
        subagents = folder / subagents_name(task.attempt, task.conversation)
        state = AgentState(
            conversation=conversation, outputs=folder / "outputs", subagents=subagents, background=background
        )
        return SubAgent(self._config(task), context, state)

    def _context_of(self, task: StepTask, mark: str) -> AgentContext:
        """Return the context of an attempt: in the folder where the step works, with processes that carry ``mark``."""
        own = self._context
        run, workspace = own.run, own.workspace
        if task.workdir is not None:  # nobody else writes there, so there are no turns to take
            run = structs.replace(run, turns=None)
            workspace = structs.replace(workspace, root=Path(task.workdir), stands_for=workspace.root, files=DISK)
        network = None if task.step.network is None else Network(task.step.network)
        environ = {**own.environ, **task.variables, ATTEMPT_MARK: mark}
        return structs.replace(own, run=run, workspace=workspace, network=network, environ=environ)

    def _profile(self, task: StepTask) -> AgentProfile | None:
        """Return the profile the step names, or None. The plan's profiles were checked before it started."""
        if task.step.agent is None:
            return None
        agents = self._context.agents
        return None if agents is None else agents.delegated(task.step.agent)

    def _config(self, task: StepTask) -> SubAgentConfig:
        return SubAgentConfig(
            step_id=task.step_id,
            title=task.step.title,
            mode=task.step.mode,
            allowed_tools=None if task.step.allowed_tools is None else tuple(task.step.allowed_tools),
            denied_tools=tuple(task.step.denied_tools),
            max_tokens=task.max_tokens,
            max_turns=task.max_turns,
            max_price=task.step.max_price,
            model=next(iter(task.step.models), None),
            profile=self._profile(task),
            caller=f"{task.step_id}:{task.conversation}" if task.conversation else "",
            hand_in=None
            if task.step.output_schema is None
            else HandIn(schema=task.step.output_schema, description=HAND_IN_TEXT),
        )


def _within_claim(context: AgentContext, task: StepTask, guard: TamperGuard) -> AgentContext:
    """Return ``context`` limited to the files that the step claims to write."""
    claim = None if task.step.writes is None else tuple(task.step.writes)
    workspace = structs.replace(
        context.workspace, writes=claim, protected=guard.protected, configures_checks=guard.configures
    ).granting([Path(file) for file in result_files(task)], write=False)
    named = claim if task.item is None else task.item.writes
    accepted = named is not None and context.run.accepted_writes.issuperset(named)
    approvals = context.approvals.at_least(ApprovalMode.EDITS) if accepted else context.approvals
    return structs.replace(context, workspace=workspace, approvals=approvals)


def subagents_name(attempt: int, conversation: str = "") -> str:
    """Return the name of the folder that holds those of a conversation's subagents."""
    return _name("subagents", attempt, conversation)


def transcript_name(attempt: int, conversation: str = "") -> str:
    """Return the file name of a conversation of an attempt, by which an interrupted attempt finds it again.

    Each attempt has a main conversation and may have more.
    """
    return f"{_name('messages', attempt, conversation)}.jsonl"


def has_begun(step_folder: Path, task: StepTask) -> bool:
    """Return whether an attempt has a conversation already, from which it can continue. Reads files."""
    conversation = step_folder / transcript_name(task.attempt, task.conversation)
    return task.has_agent and conversation.is_file() and conversation.stat().st_size > 0


def _name(kind: str, attempt: int, conversation: str) -> str:
    return ".".join((kind, *([str(attempt)] if attempt > 1 else []), *([conversation] if conversation else [])))


async def without_leftovers(work: Callable[[], Awaitable[T]], mark: str) -> T:
    """Do ``work``, whose processes carry ``mark`` as ``ATTEMPT_MARK``; if it is cancelled, none of them outlives it.

    After a cancellation they have GRACE_SECONDS to end, whatever ``work`` itself allows them, and are then killed.
    """
    ended = Event()
    async with bare_task_group() as group:
        group.start_soon(_kill_when_late, ended, mark)
        try:
            return await work()
        finally:
            ended.set()
    raise AssertionError("the group swallows nothing")  # for the type checker


async def _kill_when_late(ended: Event, mark: str) -> None:
    """Kill the processes that carry ``mark`` if they outlive a cancellation by GRACE_SECONDS."""
    try:
        await ended.wait()
    except get_cancelled_exc_class():
        with CancelScope(shield=True):
            with move_on_after(GRACE_SECONDS):
                await ended.wait()
            with move_on_after(KILL_SECONDS):
                await kill_marked(ATTEMPT_MARK, mark)
        raise


def attempt_spending(step_folder: Path, attempt: int) -> Spending:
    """Return the usage and cost in USD (None if unknown) of the attempt's agents and their subagents. Reads files.

    Agents that resolved merge conflicts of the attempt are included; they had conversations of their own.
    """
    stem = transcript_name(attempt).removesuffix(".jsonl")
    names = ("", *(path.stem.removeprefix(f"{stem}.") for path in step_folder.glob(f"{stem}.merge*.jsonl")))
    return total_of(spent for name in names for spent in _conversation_spending(step_folder, attempt, name))


def _conversation_spending(step_folder: Path, attempt: int, name: str) -> Iterator[Spent]:
    try:
        yield Transcript.peek(step_folder / transcript_name(attempt, name))
    except TranscriptError:
        return  # the step that needs the conversation reports it
    yield from earlier_subagents(step_folder / subagents_name(attempt, name), "")
