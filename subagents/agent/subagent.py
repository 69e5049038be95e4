"""The agent of a step, with its own history, tools, budget and tagged events, and an agent that only reads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from anyio import to_thread
from msgspec import Struct, structs

from ipc.events import SubAgentFinishedEvent, SubAgentStartedEvent, WarningEvent
from ipc.sink import TaggingSink
from subagents.agent.agent_factory import TASK_TOOL, AgentParts, AgentState, agent_kit
from subagents.agent.budget import Limits
from subagents.agent.run_context import AgentContext, ChildSpawner
from subagents.agent.tool_policy import step_tools
from subagents.step_result import AgentUsage
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.agents.models import AgentProfile
from vibe.core.config.models import ModelConfig
from vibe.core.messages import AssistantMessage, Spent, StopSignal, total_of
from vibe.core.modes import MODE_CATALOG, ExecutionMode
from vibe.core.session.folder import Transcript, TranscriptError
from vibe.core.tools.base import ToolClass
from vibe.core.tools.discovery import PROGRAM
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.manager import ToolManager, profile_view
from vibe.core.tools.questions import Question, QuestionAnswer, UserInput
from vibe.core.turn import AgentKit


class SubAgentConfig(Struct, frozen=True, kw_only=True):
    """One subagent's orders and limits. Tokens are prompt plus completion over all turns; the price is in USD.

    ``profile`` limits what it may do. If an agent started it, ``step_id`` is empty and ``parent_id`` is set.
    ``caller`` is its name in replays and logs, if not the step's id. ``hand_in`` is the value it must end with.
    """

    step_id: str
    title: str
    mode: ExecutionMode = ExecutionMode.CODE
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    max_tokens: int = 50_000
    max_turns: int = 10
    max_price: float | None = None
    model: str | None = None
    profile: AgentProfile | None = None
    parent_id: str | None = None
    caller: str = ""
    hand_in: HandIn | None = None


TOO_LONG_SHOWN = 200
"""Characters shown of a message that is too long for the model."""
TRANSCRIPT_FILE = "messages.jsonl"
"""The file of a conversation, in the folder of a subagent that an agent started."""


class SubAgent:
    """Does one step in isolation.

    ``conversation`` grows as it works. A conversation that has begun already is continued.
    """

    def __init__(self, config: SubAgentConfig, context: AgentContext, state: AgentState) -> None:
        self.subagent_id = state.agent_id or uuid4().hex
        self.config = config
        self.conversation = state.conversation
        self._state = structs.replace(state, agent_id=self.subagent_id)
        models = context.models
        own = models if config.profile is None else models.adjusted(config.profile.settings)
        sink = TaggingSink(context.sink, subagent_id=self.subagent_id, subagent_step_id=config.step_id)
        self._context = structs.replace(context, models=own, sink=sink)
        self._model = self._resolve_model()
        self._tools = self._choose_tools()
        self._offered = self._tools if config.hand_in is None else self._tools.with_tool(config.hand_in.tool_class())
        named = {"step_id": config.step_id, "title": config.title, "parent_id": config.parent_id}
        self._taught = context.guidance.for_agent(
            context.workspace.root,
            sink,
            context.environ,
            subagent={"id": self.subagent_id, **named},
            conversation=self.conversation.messages,
        )
        before = earlier_subagents(state.subagents, "") if state.subagents else ()
        account = context.account.open(
            f"step {config.step_id!r}" if config.step_id else f"subagent {config.caller!r}",
            Limits(max_tokens=config.max_tokens, max_price=config.max_price, max_turns=config.max_turns),
            spent=total_of((self.conversation, *before)),
        )
        self.account = account.name
        """The name of the account that it pays from."""
        self._context = structs.replace(self._context, account=account, tools=self._tools)
        self._spawner = self._make_spawner()
        self._loop = AgentLoop(self._kit())
        self._started: float | None = None
        self._stop: StopSignal | None = None

    async def execute(self, prompt: str, stop: StopSignal) -> ActResult:
        """Do the step, or continue it where its conversation was cut off. ``stop`` ends it after a turn."""
        self._stop = stop
        if self._spawner is not None:
            self._spawner.stop = stop
        self._started = self._context.run.clock()
        self._announce_start()
        if not self.conversation.messages:
            return await self._loop.act(prompt, stop)
        if self.conversation.dropped_bytes:
            dropped = (
                f"{self.conversation.dropped_bytes} bytes of an incomplete message were dropped from the conversation"
            )
            self._context.sink.publish(WarningEvent(code="transcript.torn", message=dropped))
        return await self._loop.resume(stop)

    async def continue_with(self, prompt: str) -> ActResult:
        """After ``execute``, act on another prompt in the same conversation."""
        return await self._loop.act(prompt, self._stop)

    async def resume(self) -> ActResult:
        """After ``execute``, act on the messages it was sent since its last turn."""
        return await self._loop.resume(self._stop)

    @property
    def has_unread(self) -> bool:
        """True if it was sent a message that it has not read yet."""
        return self._loop.has_unread

    def steer(self, text: str, by: str = "") -> bool:
        """Send it a message to read before its next model call. Return False if it is too long for its model."""
        return self._loop.steer(text, by, at_rest=True)

    def deliver(self, messages: Iterable[str]) -> None:
        """Send it ``messages``, except those that are in its conversation already."""
        read = Counter(prompt.content for prompt in self.conversation.prompts)
        for text in messages:
            if read[text]:
                read[text] -= 1
            elif not self.steer(text):
                sink, message = self._context.sink, f"too long for {self._model.key}: {text[:TOO_LONG_SHOWN]}…"
                sink.publish(WarningEvent(code="told.too_long", message=message))

    @property
    def model(self) -> str:
        """The name of its model."""
        return self._model.name

    def finish(self, outcome: str, reason: str | None) -> None:
        """Announce the end of an agent that has started. The caller gives the outcome, because it knows the checks'."""
        if self._started is None:
            return
        duration_s, own = self._context.run.clock() - self._started, self.conversation
        self._context.sink.publish(finished_event(outcome, reason, own, own.turns, duration_s))

    @property
    def agents(self) -> tuple[AgentUsage, ...]:
        """The usage of this agent and of each that it started, with its own first."""
        agent = self.config.profile.name if self.config.profile else ""
        own = _usage(self.subagent_id, self.conversation, self.config.parent_id, agent)
        return (own, *(self._spawner.agents if self._spawner else ()))

    def last_words(self) -> str:
        """Return the last text it wrote, or an empty string."""
        messages = reversed(self.conversation.messages)
        return next((m.content for m in messages if isinstance(m, AssistantMessage) and m.content), "")

    def _choose_tools(self) -> ToolManager:
        """Return the tools it may use: at most those of its profile, without the task tool if it can't start others."""
        config, tools = self.config, self._context.tools
        if config.profile is not None:
            tools = profile_view(tools, config.profile, may_widen=False)
        attended = self._context.user_input is not None
        reading = (name for name, tool in tools.available.items() if tool.read_only)
        harmless = tuple(name for name in reading if tools.origin(name) == PROGRAM)
        patterns = config.mode, config.allowed_tools, config.denied_tools
        allowed, denied = step_tools(*patterns, attended=attended, harmless=harmless)
        spawns = self._context.spawning is not None and self._state.subagents is not None
        chosen = tools.filtered(allowed, denied if spawns else (*denied, TASK_TOOL))
        return self._context.guidance.tools(chosen)

    def _make_spawner(self) -> ChildSpawner | None:
        context, folder = self._context, self._state.subagents
        if context.spawning is None or folder is None or TASK_TOOL not in self._tools.available:
            return None
        inherited = structs.replace(
            context, default_model=self._model.key, spawning=None, guidance=context.guidance.for_subagents(self._taught)
        )
        return context.spawning(self.subagent_id, inherited, folder)

    def _resolve_model(self) -> ModelConfig:
        """Return the step's model, with its prices if a limit depends on them."""
        profile = self.config.profile
        models = self._context.models
        alias = self.config.model or (profile and profile.model) or self._context.default_model
        priced = self.config.max_price is not None or self._context.account.has_price_limit
        return models.resolve_priced(alias) if priced else models.resolve(alias)

    def _kit(self) -> AgentKit:
        config = self.config
        parts = AgentParts(
            state=self._state,
            model=self._model,
            profile=config.profile,
            taught=self._taught,
            caller=config.caller or config.step_id,
            role=MODE_CATALOG[config.mode].subagent_guidance,
            lean=True,
            subagents=self._spawner,
            hand_in=config.hand_in,
        )
        return agent_kit(structs.replace(self._context, tools=self._offered), parts)

    def _announce_start(self) -> None:
        context, config = self._context, self.config
        tools = tuple(schema.name for schema in self._offered.schemas())
        own = {"title": config.title, "mode": config.mode.value, "parent_id": config.parent_id}
        agent = config.profile.name if config.profile else ""
        context.sink.publish(_started_event(context, self._model, tools, config, agent=agent, **own))


def _started_event(
    context: AgentContext, model: ModelConfig, tools: tuple[str, ...], limits: SubAgentConfig | ReaderLimits, **own: Any
) -> SubAgentStartedEvent:
    """Return the event that announces an agent; ``own`` are its title, its mode and who it is."""
    return SubAgentStartedEvent(
        **own,
        model=model.key,
        tools=tools,
        max_tokens=limits.max_tokens,
        max_turns=limits.max_turns,
        folder=str(context.workspace.root),
        pid=os.getpid(),
    )


def finished_event(
    outcome: str, reason: str | None, spent: Spent, turns: int, duration_s: float
) -> SubAgentFinishedEvent:
    """Return the event that announces an agent's end and what it used."""
    tokens = spent.usage.total_tokens
    return SubAgentFinishedEvent(
        outcome=outcome, reason=reason, tokens=tokens, turns=turns, duration_s=duration_s, cost_usd=spent.cost_usd
    )


def earlier_subagents(folder: Path, parent_id: str) -> Iterable[AgentUsage]:
    """Yield the usage of the subagents with folders in ``folder``. Reads files."""
    for path in sorted(folder.glob(f"*/{TRANSCRIPT_FILE}")) if folder.is_dir() else ():
        name, _, short_id = path.parent.name.rpartition("-")
        with suppress(TranscriptError):  # such a subagent is not continued either
            yield _usage(short_id, Transcript.peek(path), parent_id, name)


def _usage(agent_id: str, conversation: Transcript, parent_id: str | None, agent: str) -> AgentUsage:
    return AgentUsage(
        agent_id=agent_id, parent_id=parent_id, agent=agent, usage=conversation.usage, cost_usd=conversation.cost_usd
    )


READING_TOOLS = frozenset({"read_file", "grep", "glob", "list_dir"})
ASKING_TOOL = "ask_user_question"
_BUILTINS = "vibe.core.tools.builtins."


class ReaderLimits(Struct, frozen=True, kw_only=True):
    """The limits of a reader. Tokens are prompt plus completion, the price is in USD (None if there is no limit).

    A conversation longer than ``max_context_tokens`` is summarised.
    """

    max_turns: int = 30
    max_tokens: int = 200_000
    max_price: float | None = None
    max_context_tokens: int = 100_000


class ReadOnlyAgent:
    """Reads in one workspace, for one task.

    ``name`` is its name in replays, logs and budgets. Its conversation stays in memory unless ``keep`` is called.
    Whatever configuration, profile or server says, it has only the program's own tools for reading and, if a person is
    there, for asking, which it may do once. It has no tools at all if its model is set to plan at once.
    """

    def __init__(self, name: str, context: AgentContext, limits: ReaderLimits) -> None:
        self.conversation = Transcript()
        self._started = 0.0
        self._loop: AgentLoop | None = None
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
        """Keep the conversation in a file of this name, in a folder that is made if needed. Blocks."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self.conversation.path = folder / name

    def begin(self, title: str, offer: str) -> None:
        """Announce the start of its task; ``offer`` is the tool it ends with."""
        context = self._context
        self._started = context.run.clock()
        own = {"title": title, "mode": ExecutionMode.DESIGN.value, "agent": self._name}
        context.sink.publish(_started_event(context, self.model, (*self.tools.available, offer), self._limits, **own))

    def finish(self, acted: ActResult) -> None:
        """Announce the end of its task."""
        context = self._context
        duration_s = context.run.clock() - self._started
        context.sink.publish(finished_event(acted.outcome.value, acted.reason, acted, acted.turns, duration_s))

    async def read(self, orders: str, prompt: str, hand_in: HandIn, stop: StopSignal) -> ActResult:
        """Do the task. ``orders`` begin its system prompt. A failure is in the result."""
        kit = await to_thread.run_sync(self._kit, orders, hand_in)
        self._loop = AgentLoop(kit)
        return await self._loop.act(prompt, stop)

    def steer(self, text: str) -> bool:
        """Send it a message while it reads. Return False if it isn't reading or can't take the message."""
        return self._loop is not None and self._loop.steer(text)

    def _kit(self, orders: str, hand_in: HandIn) -> AgentKit:
        """Return the kit it works with. Reads files."""
        context, limits = self._context, self._limits
        root, about = context.workspace.root, {"id": self._name}
        asking = None if context.user_input is None else _AskOnce(context.user_input)
        own = Limits(max_tokens=limits.max_tokens, max_price=limits.max_price, max_turns=limits.max_turns)
        account = context.account.open(f"the {self._name}", own)
        return agent_kit(
            structs.replace(
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
                taught=context.guidance.for_agent(root, context.sink, context.environ, subagent=about),
                caller=self._name,
                base_prompt=orders,
                hand_in=hand_in,
            ),
        )


def reading_tools(tools: ToolManager, *, attended: bool) -> ToolManager:
    """Return the tools of a reader: built-in ones only, whatever another tool is called or says of itself."""
    wanted = READING_TOOLS | ({ASKING_TOOL} if attended else frozenset[str]())

    def keep(cls: ToolClass) -> bool:
        return cls.get_name() in wanted and cls.__module__.startswith(_BUILTINS) and cls.read_only

    return tools.only(keep)


class _AskOnce(Struct, eq=False):
    """Asks the person the first time it is called, and nobody afterwards."""

    _ask: UserInput | None

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        ask, self._ask = self._ask, None
        return None if ask is None else await ask(questions, request_id)
