"""TerminalDecider: has the person at the terminal take a decision of a plan; the time left is shown counting down."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio

from ipc.events import PlanDecisionEvent
from vibe.app.plan.decision_prompter import DecisionPrompter
from vibe.app.plan.dispatch import Audience
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.approver import TerminalApprover
from vibe.cli.terminal.choice_text import Choosing, choosing_of, options_text, time_left
from vibe.cli.terminal.dialogue import Desk, Dialogue
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.cli.terminal.questions import TerminalUserInput, ask_choice


class TerminalDecider:
    """Asks at the terminal. Esc, Ctrl-D or a terminal that is gone: not now. ``clock`` tells unix seconds."""

    def __init__(self, queue: Desk, clock: Callable[[], float] = time.time) -> None:
        self._queue = queue
        self._clock = clock

    async def __call__(self, decision: PlanDecisionEvent) -> Sequence[str] | None:
        """The ids of the options picked; None: the person would rather not, for now."""
        choosing, picked = choosing_of(decision), None
        with suppress(OSError):
            async with (
                self._queue.conversation(_heading(decision, choosing), escape=True) as conversation,
                self._countdown(conversation, decision),
            ):
                with suppress(OSError):
                    picked = await ask_choice(conversation, choosing)
        return None if picked is None else [decision.options[position] for position in picked.positions]

    @asynccontextmanager
    async def _countdown(self, conversation: Dialogue, decision: PlanDecisionEvent) -> AsyncGenerator[None]:
        """Say how much time is left, until the block ends."""
        if not decision.timeout_seconds:
            yield
            return
        number = conversation.lines
        await conversation.say(time_left(decision, self._clock()) + "\n")
        async with anyio.create_task_group() as group:
            group.start_soon(self._count, conversation, decision, number)
            yield
            group.cancel_scope.cancel()

    async def _count(self, conversation: Dialogue, decision: PlanDecisionEvent, number: int) -> None:
        with suppress(OSError):  # whoever reads the answer notices
            while True:
                await anyio.sleep(1.0)
                await conversation.change_line(number, time_left(decision, self._clock()))


def _heading(decision: PlanDecisionEvent, choosing: Choosing) -> str:
    question = "\n    ".join(visible(line) for line in decision.question.split("\n"))
    return f"\n? {visible(decision.decision_id)}: {question}\n{options_text(choosing)}"


@contextmanager
def interactive_audience(env: CliEnvironment) -> Generator[Audience]:
    """Yield the audience of a person who watches the tree and answers approvals, questions and decisions."""
    with LiveTree(env.stdout, environ=env.environ) as tree:
        queue = PromptQueue(env, tree)
        decider = DecisionPrompter(TerminalDecider(queue))
        yield Audience(
            listeners=[tree, decider, queue],
            approver=TerminalApprover(queue, tree.asking_step),
            user_input=TerminalUserInput(queue, tree.questioned_step),
            decider=decider,
        )
