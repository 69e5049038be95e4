"""BaseTool: the base of all tools, our own and others'.

A tool's ``run`` has one of three shapes:

- ``async def run(self, args: Args, ctx: InvokeContext)`` that yields ``ToolStreamLine``s and one result;
- ``async def run(self, args: Args) -> Result``, with ``ctx`` as a second parameter or not;
- in a ``BaseTool[Config]``, ``async def run(self, option: str, depth: int = 3) -> str``: the parameters are the
  arguments.
"""

from __future__ import annotations

import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, ValidationError

from ipc.events import Display
from vibe.core.instructions.memory import AgentMemory
from vibe.core.messages import Denial, Image
from vibe.core.skills.manager import AgentSkills
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.errors import ToolArgumentsError, ToolError
from vibe.core.tools.permissions import Assessment, PathAccess, ToolPermission, listed
from vibe.core.tools.ports import CallOutlook, SubagentSpawner
from vibe.core.tools.questions import UserInput
from vibe.core.tools.schema import (
    CONTEXT_PARAMETER,
    KeywordArguments,
    derive_arguments,
    describe_problems,
    keyword_values,
    parameter_schema,
    type_argument,
)
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.shell.process.port import Commands
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.settings import Network
from vibe.system.plain_text import shortened

SUMMARY_LENGTH = 120


class BaseToolConfig(BaseModel):
    """A ``[tools.<name>]`` table. ``allowlist`` and ``denylist`` are globs over the paths or texts of a call."""

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: ToolPermission = ToolPermission.ASK
    allowlist: list[str] = []
    denylist: list[str] = []
    workdir: Path | None = None
    """The folder that the tool works in, as from the agent's root; None: that root."""

    @property
    def effective_workdir(self) -> Path:
        """The folder of the call that is running: the agent's root, or the table's ``workdir``, seen from there.

        Raises:
            ToolError: no call is running.
        """
        root = _ROOT.get()
        if root is None:
            raise ToolError("a tool has a folder to work in only while it is called")
        return root / (self.workdir or Path()).expanduser()


class UnaskedConfig(BaseToolConfig):
    """The table of a tool whose calls need no yes."""

    permission: ToolPermission = ToolPermission.ALWAYS


class ToolArgs(BaseModel):
    """The base of our own tools' arguments, and of what is in them: nothing unknown is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BaseToolState(BaseModel):
    """Memory of a tool between its calls; one a tool and agent."""


class ToolStreamLine(BaseModel):
    """A line a running tool shows; ``stream`` and ``dropped_bytes`` as in ``tool.stream``."""

    tool_name: str
    message: str
    tool_call_id: str
    stream: str = ""
    dropped_bytes: int = 0


ToolStreamEvent = ToolStreamLine
"""The same as Mistral Vibe calls it."""


class TextResult(BaseModel):
    """The result of a tool that returns plain text."""

    text: str


class InvokeContext(Struct, frozen=True, kw_only=True):
    """Surroundings of one call of a tool.

    ``workspace`` is the agent's own root (the process has no directory to rely on), ``reads`` which version of which
    file it has seen, ``output_dir`` where a truncated output is kept whole, ``environ`` what child processes get.
    ``skills`` and ``memory`` are None where the agent has none. ``user_input_callback`` None: no user is there to ask;
    ``subagents`` None: none can be started. ``commands`` None: they are processes of our own; ``background`` None: none
    can run on after its call; ``confinement`` None: they run as the user would run them; ``network`` None: they reach
    what the settings let them.
    ``sees_images``: the model takes pictures. ``read_only``: the call was allowed unasked because it only reads.
    """

    tool_call_id: str = ""
    workspace: Workspace
    reads: ReadTracker = field(default_factory=ReadTracker)
    output_dir: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    approval_callback: Callable[..., Any] | None = None
    agent_manager: Any = None
    user_input_callback: UserInput | None = None
    subagents: SubagentSpawner | None = None
    commands: Commands | None = None
    background: BackgroundCommands | None = None
    skills: AgentSkills | None = None
    memory: AgentMemory | None = None
    confinement: Confinement | None = None
    network: Network | None = None
    sees_images: bool = False
    read_only: bool = False


_ROOT: ContextVar[Path | None] = ContextVar("tool_root", default=None)
"""The root of the agent whose call runs in the current task."""

Args = TypeVar("Args", bound=BaseModel)
Result = TypeVar("Result", bound=BaseModel)
Config = TypeVar("Config", bound=BaseToolConfig)
State = TypeVar("State", bound=BaseToolState)


class MistralHooks:
    """Permission hooks of Mistral Vibe 2.x, which a tool may define.

    Each answers with a permission or with something that has one; None: no opinion.
    """

    def check_allowlist_denylist(self, args: Any) -> Any:
        """Compare the text arguments with the lists of the tool."""
        config = cast("Any", self).config
        texts = (value for value in keyword_values(args).values() if isinstance(value, str))
        return listed(texts, config.allowlist, config.denylist)

    def resolve_permission(self, args: Any) -> Any:  # noqa: ARG002  overridden by tools of Mistral Vibe
        """Return the permission of a call."""
        return None


def assess_by_hooks(tool: MistralHooks, args: Any) -> Assessment:
    """Return what the hooks make of a call: what a list denies is denied, else ``resolve_permission`` counts."""
    by_lists, by_rules = tool.check_allowlist_denylist(args), tool.resolve_permission(args)
    answer = by_lists if by_rules is None or _permission(by_lists) is ToolPermission.NEVER else by_rules
    return Assessment(listed=_permission(answer), reason=str(getattr(answer, "reason", None) or ""))


def _permission(answer: Any) -> ToolPermission | None:
    given = getattr(answer, "permission", answer)
    return None if given is None else ToolPermission(given)


class BaseTool(MistralHooks, ABC, Generic[Args, Result, Config, State]):  # noqa: PLR0904  the interface
    """A tool. ``BaseTool[Config]`` is short for arguments from the signature, a text result and no state."""

    description: ClassVar[str] = ""
    read_only: ClassVar[bool] = False
    """Calls of one turn run side by side; ``safe`` agents have no other tools."""
    edits_files: ClassVar[bool] = False
    """It writes the files that ``assess`` names and does nothing else: who approves all edits approves its calls."""
    path_argument: ClassVar[str] = ""
    """The argument that is the one path a call touches: written, if the tool ``edits_files``."""
    changes_files: ClassVar[bool] = True
    """One that is not ``read_only`` waits while other runs write in its folder, and they for it."""
    uses_network: ClassVar[bool] = False
    """``safe`` agents do without it."""
    interactive: ClassVar[bool] = False
    """It exists only where a person can answer."""
    ends_work: ClassVar[bool] = False
    """The host gives it to an agent, and no skill takes it away."""
    unsandboxed_arguments: ClassVar[type[BaseModel] | None] = None
    """Its arguments where the sandbox is turned off, if they differ."""

    def __init__(self, config: Config, state: State) -> None:
        self.config = config
        self.state = state

    def __class_getitem__(cls, params: Any) -> Any:
        """Accept the short forms ``[Config]``, ``[Args, Result]`` and ``[Args, Result, Config]``."""
        given: tuple[Any, ...] = cast("tuple[Any, ...]", params) if isinstance(params, tuple) else (params,)
        if cls is BaseTool and len(given) == 1:
            given = (KeywordArguments, TextResult, *given, BaseToolState)
        elif cls is BaseTool and len(given) < 4:
            given = (*given, *(BaseToolConfig, BaseToolState)[len(given) - 2 :])
        subscribe = cast("Callable[[Any], Any]", getattr(super(), "__class_getitem__"))  # noqa: B009  unknown to stubs
        return subscribe(given)

    @abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work; see the module for the three shapes.

        Raises:
            ToolError: it could not be done; the message goes to the model.
        """

    # --- what it is ---

    @classmethod
    def get_name(cls) -> str:
        """The name the model calls: the class name in snake_case."""
        return _in_snake_case(cls.__name__)

    @classmethod
    def get_description(cls) -> str:
        """Return its text for the model: ``description``, else the docstring of the class, else that of ``run``."""
        for text in (cls.description, cls.__doc__, cls.__dict__.get("run").__doc__):
            if text and text.strip():
                return inspect.cleandoc(text)
        return cls.get_name()

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """The JSON Schema of the arguments; the same bytes every time."""
        return parameter_schema(cls.args_model())

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """The text of ``prompts/<name>.md`` (or ``<file>.md``) beside the tool's module; None without one.

        Reads disk.
        """
        try:
            module = Path(inspect.getfile(cls))
        except (TypeError, OSError):
            return None
        for name in (cls.get_name(), module.stem):
            path = module.parent / "prompts" / f"{name}.md"
            if path.is_file():
                return path.read_text(encoding="utf-8")
        return None

    @classmethod
    def prompt_with(cls, config: BaseToolConfig) -> str | None:  # noqa: ARG003  the interface
        """The same for a tool with these settings. Reads disk."""
        return cls.get_tool_prompt()

    @classmethod
    def args_model(cls) -> type[BaseModel]:
        """The model its arguments are checked against."""
        return _args_model(cls)

    @classmethod
    def config_class(cls) -> type[BaseToolConfig]:
        """The model of its ``[tools.<name>]`` table."""
        return type_argument(cls, BaseTool, 2, BaseToolConfig)

    @classmethod
    def state_class(cls) -> type[BaseToolState]:
        """The model of its state."""
        return type_argument(cls, BaseTool, 3, BaseToolState)

    @classmethod
    def from_config(cls, config: BaseToolConfig) -> BaseTool[Any, Any, Any, Any]:
        """A fresh instance, with a state of its own."""
        return cls(cast("Config", config), cast("State", cls.state_class()()))

    # --- what a call of it means ---

    def assess(self, args: Args, workspace: Workspace) -> Assessment:  # noqa: ARG002  for tools with paths to follow
        """Judge a call: what it touches and what the tool's own rules say. Asked once a call; may read the file system.

        This default names the ``path_argument``; without one it compares the text arguments with the lists.
        """
        if self.path_argument:
            return Assessment(paths=(PathAccess(path=getattr(args, self.path_argument), write=self.edits_files),))
        return assess_by_hooks(self, args)

    def summarize(self, args: Args) -> str:
        """The call on one line, for people: ``write_file src/a.py``."""
        texts = (value for value in keyword_values(args).values() if isinstance(value, str) and value.strip())
        return self.named(next(texts, ""))

    def named(self, about: str) -> str:
        """The tool's name and what a call is about, on one line that is not too long."""
        return shortened(" ".join(f"{self.get_name()} {about}".split()), SUMMARY_LENGTH)

    def format_result(self, result: Result) -> str:
        """Return what the model reads of a result: text as it is, a model as ``field: value`` lines."""
        if isinstance(result, TextResult):
            return result.text
        return "\n".join(f"{name}: {_as_text(value)}" for name, value in result.model_dump(mode="json").items())

    def diff(self, result: Result) -> str:  # noqa: ARG002  overridden by writing tools
        """Return what the call has changed, as a diff."""
        return ""

    def outlook(self, args: Args, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:  # noqa: ARG002  overridden
        """Return what the call would do, and where, as data for the person who is asked. Reads files.

        ``sandboxed``: commands run in a sandbox unless they ask for another place.

        Raises:
            ToolError: the call would fail so.
        """
        return CallOutlook(cwd=str(workspace.root))

    def display(self, result: Result) -> Display | None:  # noqa: ARG002  overridden by tools with more to show than text
        """Return the result as data that a screen can draw; None: there is only the text."""
        return None

    def files_changed(self, result: Result) -> tuple[str, ...]:  # noqa: ARG002  overridden by writing tools
        """Workspace-relative paths of the files the call changed."""
        return ()

    def images(self, result: Result) -> tuple[Image, ...]:  # noqa: ARG002  overridden by tools that show pictures
        """Pictures the model is to see beside the text."""
        return ()

    def denials(self, result: Result) -> tuple[Denial, ...]:  # noqa: ARG002  overridden by tools that start agents
        """Return what others that worked for this call were not allowed."""
        return ()

    # --- calling it ---

    def parse(self, raw: Mapping[str, Any]) -> Args:
        """Check the arguments of a call.

        Raises:
            ToolArgumentsError: they don't fit; names the schema path of each problem.
        """
        try:
            return cast("Args", self.args_model().model_validate(dict(raw)))
        except ValidationError as error:
            raise ToolArgumentsError(self.get_name(), describe_problems(error, "arguments")) from error

    async def execute(self, args: Args, ctx: InvokeContext, show: Callable[[ToolStreamLine], None]) -> Result:
        """Run with checked arguments, whatever the shape; ``show`` gets what it streams.

        Raises:
            ToolError: it could not be done, or the tool ended without a result.
        """
        result: Result | None = None
        async with aclosing(self._items(args, ctx)) as items:
            async for item in items:
                if isinstance(item, ToolStreamLine):
                    show(item)
                else:
                    result = cast("Result", _as_result(item))
        if result is None:
            raise ToolError(f"{self.get_name()} ended without a result")
        return result

    def invoke(self, ctx: InvokeContext | None = None, **raw: Any) -> AsyncGenerator[ToolStreamLine | Result, None]:
        """Check the arguments and run: stream events, then one result.

        Raises:
            ToolError: the arguments don't fit (at once), or it could not be done (while iterating).
        """
        return self._items(self.parse(raw), ctx)

    def _items(self, args: Args, ctx: InvokeContext | None) -> AsyncGenerator[ToolStreamLine | Result, None]:
        if shape_of(type(self).run).streams:
            return self._call_run(args, ctx)
        return self._single(args, ctx)

    async def _single(self, args: Args, ctx: InvokeContext | None) -> AsyncGenerator[ToolStreamLine | Result, None]:
        yield _as_result(await self._call_run(args, ctx))

    def _call_run(self, args: Args, ctx: InvokeContext | None) -> Any:
        _ROOT.set(ctx.workspace.root if ctx is not None else None)
        positional, named = shape_of(type(self).run).given(args, ctx)
        return self.run(*positional, **named)


class RunShape(Struct, frozen=True, kw_only=True):
    """The shape of a ``run``: it is a generator, it names the context, or takes it as its second argument unnamed."""

    streams: bool
    names_context: bool
    takes_second: bool

    def given(self, args: BaseModel | None, ctx: InvokeContext | None) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return what it is called with, in their order and by their names."""
        named: dict[str, Any] = {CONTEXT_PARAMETER: ctx} if self.names_context else {}
        if isinstance(args, KeywordArguments):
            return (), keyword_values(args) | named
        return (args, ctx) if self.takes_second else (args,), named


@lru_cache(maxsize=512)
def shape_of(run: Callable[..., Any]) -> RunShape:
    """Look at the ``run`` of a class, once: that is slow."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    names_context = any(one.name == CONTEXT_PARAMETER for one in parameters)
    return RunShape(
        streams=inspect.isasyncgenfunction(run),
        names_context=names_context,
        takes_second=not names_context and len(parameters) > 1 and parameters[1].default is inspect.Parameter.empty,
    )


@lru_cache(maxsize=512)
def _in_snake_case(name: str) -> str:
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()


@lru_cache(maxsize=512)
def _args_model(cls: type[BaseTool[Any, Any, Any, Any]]) -> type[BaseModel]:
    named = type_argument(cls, BaseTool, 0, BaseModel)
    return derive_arguments(cls.get_name(), cls.run) if named is KeywordArguments else named


def _as_result(value: Any) -> Any:
    return value if isinstance(value, BaseModel) else TextResult(text="" if value is None else _as_text(value))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
