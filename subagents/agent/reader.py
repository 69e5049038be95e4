"""Reader: an agent that can read and nothing else, and must end by handing in a value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from ipc.events import SubAgentStartedEvent
from subagents.agent.agent_factory import AgentParts, AgentState, agent_kit
from subagents.agent.budget import Limits
from subagents.agent.run_context import AgentContext
from subagents.agent.subagent import finished_event
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.config.models import ModelConfig
from vibe.core.guidance import AgentPlace
from vibe.core.modes import ExecutionMode
from vibe.core.outcome import StopSignal
from vibe.core.session.transcript import Transcript
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.loading import ToolClass
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.questions import Answer, Question, UserInput
from vibe.core.turn import AgentKit

READING_TOOLS = frozenset({"read_file", "grep", "glob", "list_dir"})
ASKING_TOOL = "ask_user_question"
_BUILTINS = "vibe.core.tools.builtins."


class ReaderLimits(Struct, frozen=True, kw_only=True):
    """The limits of a reader. Tokens are prompt plus completion, the price is USD (None: no limit).

    ``max_context_tokens``: a conversation that is longer is summarised.
    """

    max_turns: int = 30
    max_tokens: int = 200_000
    max_price: float | None = None
    max_context_tokens: int = 100_000


class ReadOnlyAgent:
    """Reads in one workspace, for one task.

    ``name`` is what replays, logs and budgets know it by; the conversation is in memory unless it is to ``keep`` it.
    Whatever configuration, profile or server says, it has the program's own tools for reading, and the one for asking
    where a person is there, who is asked once; but none where its model is set to plan at once.
    """

    def __init__(self, name: str, context: AgentContext, limits: ReaderLimits) -> None:
        self.conversation = Transcript()
        self._started = 0.0
        self._name = name
        self._context = context
        self._limits = limits
        priced = limits.max_price is not None or context.account.has_price_limit
        models, alias = context.models, context.default_model
        model = models.resolve_priced(alias) if priced else models.resolve(alias)
        self.model: ModelConfig = model.model_copy(
            update={"context_size": min(model.context_size, limits.max_context_tokens)}
        )
        self.tools = reading_tools(context.tools, attended=context.user_input is not None)
        if model.plans_at_once:
            self.tools = self.tools.only(lambda _: False)

    def keep(self, folder: Path, name: str) -> None:
        """Write the conversation to a file of this name, in a folder that is made if need be. Blocks."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self.conversation.path = folder / name

    def begin(self, title: str, offer: str) -> None:
        """Announce what it begins; ``offer`` is the tool it ends with."""
        context, limits = self._context, self._limits
        self._started = context.run.clock()
        context.sink.publish(
            SubAgentStartedEvent(
                title=title,
                mode=ExecutionMode.DESIGN.value,
                model=self.model.key,
                tools=(*self.tools.available, offer),
                max_tokens=limits.max_tokens,
                max_turns=limits.max_turns,
                agent=self._name,
                folder=str(context.workspace.root),
                pid=os.getpid(),
            )
        )

    def finish(self, acted: ActResult) -> None:
        """Announce that what it began has ended, and how."""
        context = self._context
        duration_s = context.run.clock() - self._started
        context.sink.publish(finished_event(acted.outcome.value, acted.reason, acted, acted.turns, duration_s))

    async def read(self, orders: str, prompt: str, hand_in: HandIn, stop: StopSignal) -> ActResult:
        """Do the task; ``orders`` are what its system prompt begins with. What goes wrong is in the result."""
        kit = await to_thread.run_sync(self._kit, orders, hand_in)
        return await AgentLoop(kit, max_turns=self._limits.max_turns).act(prompt, stop)

    def _kit(self, orders: str, hand_in: HandIn) -> AgentKit:
        """Return what it works with; reads files."""
        context, limits = self._context, self._limits
        place = AgentPlace(
            root=context.workspace.root, sink=context.sink, environ=context.environ, subagent={"id": self._name}
        )
        asking = None if context.user_input is None else _Once(context.user_input)
        account = context.account.open(
            f"the {self._name}", Limits(max_tokens=limits.max_tokens, max_price=limits.max_price)
        )
        return agent_kit(
            replace(
                context,
                tools=self.tools.with_tool(hand_in.tool_class()),
                account=account,
                user_input=asking,
                agents=None,
                spawning=None,
            ),
            AgentParts(
                state=AgentState(conversation=self.conversation),
                model=self.model,
                profile=None,
                taught=context.guidance.for_agent(place),
                caller=self._name,
                base_prompt=orders,
                hand_in=hand_in,
            ),
        )


def reading_tools(tools: ToolManager, *, attended: bool) -> ToolManager:
    """The tools of a reader; one that merely has such a name, or calls itself harmless, is not among them."""
    wanted = READING_TOOLS | ({ASKING_TOOL} if attended else frozenset[str]())

    def keep(cls: ToolClass) -> bool:
        return cls.get_name() in wanted and cls.__module__.startswith(_BUILTINS) and cls.read_only

    return tools.only(keep)


class _Once:
    """Asks the person the first time only."""

    def __init__(self, ask: UserInput) -> None:
        self._ask: UserInput | None = ask

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[Answer] | None:
        ask, self._ask = self._ask, None
        return None if ask is None else await ask(questions, request_id)
