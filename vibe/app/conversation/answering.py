"""Answering: one prompt at work in a conversation, from its sending to its answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import anyio
from anyio import CancelScope, to_thread

from subagents.agent.budget import Account, Limits
from subagents.step_result import AgentUsage
from vibe.app.conversation.agent import ConversationAgent
from vibe.app.conversation.opening import NO_LIMITS, PromptLimits, PromptResult
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.messages import Image, total_of
from vibe.core.outcome import Outcome, StopSignal
from vibe.core.session.transcript import Transcript
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.system.errors import EnvironmentFailure, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt and how far to go for it; an empty text goes on where the conversation was cut off.

    ``piped`` is data that came with it on standard input.
    """

    text: str
    images: tuple[Image, ...] = ()
    limits: PromptLimits = NO_LIMITS
    stop: StopSignal | None = None
    piped: bytes = b""
    from_servers: Callable[[str], Awaitable[str | None]]
    """Gives the text of a command that is a prompt of an MCP server."""


class Answering:
    """The work on one prompt, charged to ``account``; its time runs from here on."""

    def __init__(self, prompt: Prompt, transcript: Transcript, account: Account) -> None:
        limits = prompt.limits
        self._prompt = prompt
        self._transcript = transcript
        self._account = account
        self._started = time.monotonic()
        self._scope = CancelScope(deadline=anyio.current_time() + (limits.time_limit or float("inf")))
        self._loop: AgentLoop | None = None
        account.renew(Limits(max_tokens=limits.max_tokens, max_price=limits.max_price))

    def steer(self, text: str) -> bool:
        """Send a message to the agent; False: it has not begun, or has ended."""
        return self._loop is not None and self._loop.steer(text)

    def interrupt(self) -> None:
        """Stop at once."""
        self._scope.cancel()

    async def answer(self, make_agent: Callable[[], Awaitable[ConversationAgent]]) -> PromptResult:
        """Return the end of the work, which is left to the agent that ``make_agent`` gives.

        Raises:
            UsageError: there is nothing to go on from, or no such slash command; nothing was said.
        """
        acted: ActResult | None = None
        failed = False
        agent, spawned_before = None, 0
        try:
            with self._scope:
                agent = await make_agent()
                spawned_before = len(agent.spawner.started)
                acted = await self._act(agent)
        except EnvironmentFailure as error:  # a server is missing, or the conversation can't be written down any more
            failed = True
            acted = replace(self._so_far(), outcome=Outcome.FAILED, reason="environment", detail=str(error))
        if acted is None:
            acted = self._cut_short()
        spawned = agent.spawner.started[spawned_before:] if agent else ()
        return PromptResult(
            acted=acted,
            usage=self._account.usage,
            cost_usd=self._account.cost_usd,
            duration_s=time.monotonic() - self._started,
            agents=(self._own_usage(spawned), *spawned),
            environment_failed=failed,
        )

    async def _act(self, agent: ConversationAgent) -> ActResult:
        prompt, before = self._prompt, self._transcript
        try:
            told = await to_thread.run_sync(agent.told, prompt.text, prompt.piped)
        except NoSuchCommandError:
            text = await prompt.from_servers(prompt.text[1:])
            if text is None:
                raise
            told = await to_thread.run_sync(agent.told, text, prompt.piped)
        if not told and not before.messages:
            raise UsageError("the session has no message to continue from: give a prompt")
        images = prompt.images + await to_thread.run_sync(agent.pictures, prompt.text)
        loop = self._loop = AgentLoop(agent.kit, max_turns=prompt.limits.max_turns, turns_before=before.turns)
        async with agent.setup.engine.confinement.at_work():
            return await (loop.act(told, prompt.stop, images=images) if told else loop.resume(prompt.stop))
        raise AssertionError("nothing in there is swallowed")  # for the type checker

    def _cut_short(self) -> ActResult:
        """Return what a prompt came to that was interrupted or ran out of time."""
        if self._loop is not None:
            self._transcript.close_dangling_calls()
        limit = self._prompt.limits.time_limit
        if limit is None or self._scope.deadline > anyio.current_time():
            return self._so_far()
        said = f"the time limit of {limit:g} s is reached"
        return replace(self._so_far(), outcome=Outcome.LIMIT, reason="timeout", detail=said)

    def _so_far(self) -> ActResult:
        if self._loop is not None:
            return self._loop.interrupted()
        before = self._transcript
        return ActResult(
            outcome=Outcome.INTERRUPTED,
            reason="stopped",
            detail="stopped before the end",
            usage=before.usage,
            cost_usd=before.cost_usd,
            turns=before.turns,
        )

    def _own_usage(self, spawned: Sequence[AgentUsage]) -> AgentUsage:
        """Return what the agent itself took, without those it started."""
        theirs, cost = total_of(spawned), self._account.cost_usd
        own_cost = None if cost is None or theirs.cost_usd is None else cost - theirs.cost_usd
        return AgentUsage(agent_id="", usage=self._account.usage - theirs.usage, cost_usd=own_cost)
