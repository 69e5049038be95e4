"""SubAgent: one agent of a step, with its own history, tools, budget and tagged events; and one that only reads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

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
from vibe.core.guidance import AgentPlace
from vibe.core.messages import AssistantMessage, NeverStop, Spent, StopSignal, total_of
from vibe.core.modes import MODE_CATALOG, ExecutionMode
from vibe.core.session.folder import Transcript, TranscriptError
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.manager import PROGRAM, ToolClass, ToolManager, profile_view
from vibe.core.tools.questions import Question, QuestionAnswer, UserInput
from vibe.core.turn import AgentKit


class SubAgentConfig(Struct, frozen=True, kw_only=True):
    """One subagent's orders and limits. Tokens are prompt plus completion over all turns, price in USD.

    ``profile`` bounds what it may do. ``step_id`` is empty and ``parent_id`` set for one that an agent started;
    ``caller`` is the name replays and logs know it by, if not the step's id. ``hand_in`` is what it must end with.
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
TRANSCRIPT_FILE = "messages.jsonl"
"""In the folder of a subagent that an agent started."""


class SubAgent:
    """Does one step in isolation.

    ``conversation`` grows as it works; one that has begun already is continued.
    """

    def __init__(self, config: SubAgentConfig, context: AgentContext, state: AgentState) -> None:
        self.subagent_id = state.agent_id or uuid4().hex
        self.config = config
        self.conversation = state.conversation
        self._state = replace(state, agent_id=self.subagent_id)
        models = context.models
        own = models if config.profile is None else models.adjusted(config.profile.settings)
        sink = TaggingSink(context.sink, subagent_id=self.subagent_id, subagent_step_id=config.step_id)
        self._context = replace(context, models=own, sink=sink)
        self._model = self._resolve_model()
        self._tools = self._choose_tools()
        self._offered = self._tools if config.hand_in is None else self._tools.with_tool(config.hand_in.tool_class())
        self._taught = context.guidance.for_agent(self._place())
        before = earlier_subagents(state.subagents, "") if state.subagents else ()
        account = context.account.open(
            f"step {config.step_id!r}" if config.step_id else f"subagent {config.caller!r}",
            Limits(max_tokens=config.max_tokens, max_price=config.max_price),
            spent=total_of((self.conversation, *before)),
        )
        self._context = replace(self._context, account=account, tools=self._tools)
        self._spawner = self._spawner_of_its_own()
        self._loop = AgentLoop(self._kit(), max_turns=config.max_turns)
        self._started: float | None = None

    async def execute(self, prompt: str, stop: StopSignal | None = None) -> ActResult:
        """Do the step, or go on with it where its conversation was cut off."""
        self._heed(stop)
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

    async def continue_with(self, prompt: str, stop: StopSignal | None = None) -> ActResult:
        """Take another prompt in the same conversation, after ``execute``."""
        self._heed(stop)
        return await self._loop.act(prompt, stop)

    async def go_on(self, stop: StopSignal | None = None) -> ActResult:
        """Go on with what it was told since its last turn."""
        self._heed(stop)
        return await self._loop.resume(stop)

    @property
    def has_unread(self) -> bool:
        """True if it was told something that it has not read."""
        return self._loop.has_unread

    def steer(self, text: str, by: str = "") -> bool:
        """Say something to it, which it reads before its next model call; False: its model can't take it whole."""
        return self._loop.steer(text, by, at_rest=True)

    def hear(self, told: Iterable[str]) -> None:
        """Say to it what it was told, but for what is in its conversation."""
        read = Counter(prompt.content for prompt in self.conversation.prompts)
        for text in told:
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
        """Announce the end, if it has begun; the caller knows the checks' verdict, the conversation does not."""
        if self._started is None:
            return
        duration_s, own = self._context.run.clock() - self._started, self.conversation
        self._context.sink.publish(finished_event(outcome, reason, own, own.turns, duration_s))

    @property
    def agents(self) -> tuple[AgentUsage, ...]:
        """The usage of it and of each agent it started, itself first."""
        agent = self.config.profile.name if self.config.profile else ""
        own = _usage(self.subagent_id, self.conversation, self.config.parent_id, agent)
        return (own, *(self._spawner.agents if self._spawner else ()))

    def last_words(self) -> str:
        """The last thing it said."""
        said = (
            m.content for m in reversed(self.conversation.messages) if isinstance(m, AssistantMessage) and m.content
        )
        return next(said, "")

    def _heed(self, stop: StopSignal | None) -> None:
        if self._spawner is not None:
            self._spawner.stop = stop or NeverStop()

    def _choose_tools(self) -> ToolManager:
        """Return what it may use: no more than its profile has, and no subagents where it can start none."""
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

    def _place(self) -> AgentPlace:
        config, context = self.config, self._context
        named = {
            "id": self.subagent_id,
            "step_id": config.step_id,
            "title": config.title,
            "parent_id": config.parent_id,
        }
        return AgentPlace(
            root=context.workspace.root,
            sink=self._context.sink,
            environ=context.environ,
            subagent=named,
            conversation=self.conversation.messages,
        )

    def _spawner_of_its_own(self) -> ChildSpawner | None:
        context, folder = self._context, self._state.subagents
        if context.spawning is None or folder is None or TASK_TOOL not in self._tools.available:
            return None
        inherited = replace(
            context, default_model=self._model.key, spawning=None, guidance=context.guidance.below(self._taught)
        )
        return context.spawning(self.subagent_id, inherited, folder)

    def _resolve_model(self) -> ModelConfig:
        """The step's model, with its prices where a limit depends on them."""
        profile = self.config.profile
        models = self._context.models
        alias = self.config.model or (profile and profile.model) or self._context.default_model
        priced = self.config.max_price is not None or self._context.account.has_price_limit
        return models.resolve_priced(alias) if priced else models.resolve(alias)

    def _kit(self) -> AgentKit:
        config = self.config
        return agent_kit(
            replace(self._context, tools=self._offered),
            AgentParts(
                state=self._state,
                model=self._model,
                profile=config.profile,
                taught=self._taught,
                caller=config.caller or config.step_id,
                role=MODE_CATALOG[config.mode].subagent_guidance,
                lean=True,
                subagents=self._spawner,
                hand_in=config.hand_in,
            ),
        )

    def _announce_start(self) -> None:
        context, config = self._context, self.config
        tools = tuple(schema.name for schema in self._offered.schemas())
        own = {"parent_id": config.parent_id, "agent": config.profile.name if config.profile else ""}
        begun = _started_event(context, self._model, tools, config)
        context.sink.publish(replace(begun, title=config.title, mode=config.mode.value, **own))


def _started_event(
    context: AgentContext, model: ModelConfig, tools: tuple[str, ...], limits: SubAgentConfig | ReaderLimits
) -> SubAgentStartedEvent:
    """The beginning of an agent; what it is called is still to be said."""
    return SubAgentStartedEvent(
        title="",
        mode=ExecutionMode.DESIGN.value,
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
    """The end of an agent, and what it took."""
    return SubAgentFinishedEvent(
        outcome=outcome,
        reason=reason,
        tokens=spent.usage.total_tokens,
        turns=turns,
        duration_s=duration_s,
        cost_usd=spent.cost_usd,
    )


def earlier_subagents(folder: Path, parent_id: str) -> Iterable[AgentUsage]:
    """Yield what the subagents in a folder used; reads files."""
    for path in sorted(folder.glob(f"*/{TRANSCRIPT_FILE}")) if folder.is_dir() else ():
        name, _, short_id = path.parent.name.rpartition("-")
        try:
            yield _usage(short_id, Transcript.peek(path), parent_id, name)
        except TranscriptError:
            continue  # it is not continued


def _usage(agent_id: str, conversation: Transcript, parent_id: str | None, agent: str) -> AgentUsage:
    return AgentUsage(
        agent_id=agent_id, parent_id=parent_id, agent=agent, usage=conversation.usage, cost_usd=conversation.cost_usd
    )


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
        """Write the conversation to a file of this name, in a folder that is made if need be. Blocks."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self.conversation.path = folder / name

    def begin(self, title: str, offer: str) -> None:
        """Announce what it begins; ``offer`` is the tool it ends with."""
        context = self._context
        self._started = context.run.clock()
        begun = _started_event(context, self.model, (*self.tools.available, offer), self._limits)
        context.sink.publish(replace(begun, title=title, agent=self._name))

    def finish(self, acted: ActResult) -> None:
        """Announce that what it began has ended, and how."""
        context = self._context
        duration_s = context.run.clock() - self._started
        context.sink.publish(finished_event(acted.outcome.value, acted.reason, acted, acted.turns, duration_s))

    async def read(self, orders: str, prompt: str, hand_in: HandIn, stop: StopSignal) -> ActResult:
        """Do the task; ``orders`` are what its system prompt begins with. What goes wrong is in the result."""
        kit = await to_thread.run_sync(self._kit, orders, hand_in)
        self._loop = AgentLoop(kit, max_turns=self._limits.max_turns)
        return await self._loop.act(prompt, stop)

    def steer(self, text: str) -> bool:
        """Say something to it while it reads; False: it does not, or can't take that."""
        return self._loop is not None and self._loop.steer(text)

    def _kit(self, orders: str, hand_in: HandIn) -> AgentKit:
        """Return what it works with; reads files."""
        context, limits = self._context, self._limits
        place = AgentPlace(
            root=context.workspace.root, sink=context.sink, environ=context.environ, subagent={"id": self._name}
        )
        asking = None if context.user_input is None else _Once(context.user_input)
        own = Limits(max_tokens=limits.max_tokens, max_price=limits.max_price)
        account = context.account.open(f"the {self._name}", own)
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


class _Once(Struct, eq=False):
    """Asks the person the first time only."""

    _ask: UserInput | None

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        ask, self._ask = self._ask, None
        return None if ask is None else await ask(questions, request_id)
