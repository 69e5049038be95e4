"""Defines BaseTool, the base class of every tool, built in or not.

A tool's ``run`` has one of three shapes:

- ``async def run(self, args: Args, ctx: InvokeContext)``, a generator that yields ``ToolStreamLine``s and one result;
- ``async def run(self, args: Args) -> Result``, optionally with ``ctx`` as a second parameter;
- in a ``BaseTool[Config]``, ``async def run(self, option: str, depth: int = 3) -> str``: the parameters are the
  arguments that the model gives.
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
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, ValidationError

from ipc.events import Display
from vibe.core.instructions.memory import AgentMemory
from vibe.core.messages import Denial, Image
from vibe.core.skills.manager import AgentSkills
from vibe.core.tools import schema
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.errors import ToolArgumentsError, ToolError
from vibe.core.tools.permissions import Assessment, PathAccess, ToolPermission, match_lists
from vibe.core.tools.ports import CallOutlook, SubagentSpawner
from vibe.core.tools.questions import UserInput
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.shell.process.port import Commands
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.settings import Network
from vibe.system.plain_text import shortened

SUMMARY_LENGTH = 120
"""The most characters of a call's one-line summary."""


class BaseToolConfig(BaseModel):
    """The settings in a ``[tools.<name>]`` table.

    ``allowlist`` and ``denylist`` are globs that are matched against the paths or texts of a call.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: ToolPermission = ToolPermission.ASK
    allowlist: list[str] = []
    denylist: list[str] = []
    workdir: Path | None = None
    """The folder the tool works in, relative to the agent's root. None stands for the root itself."""

    @property
    def effective_workdir(self) -> Path:
        """The folder of the running call: the agent's root, or the table's ``workdir`` resolved against it.

        Raises:
            ToolError: no call is running.
        """
        root = _ROOT.get()
        if root is None:
            raise ToolError("a tool has a folder to work in only while it is called")
        return root / (self.workdir or Path()).expanduser()


class UnaskedConfig(BaseToolConfig):
    """The settings of a tool whose calls need no approval."""

    permission: ToolPermission = ToolPermission.ALWAYS


REMARKS = frozenset({"description", "explanation", "reason", "instruction"})
"""Arguments in which other agents have a model say why it makes a call. They change nothing about it."""


class ToolArgs(BaseModel):
    """The base of the built-in tools' argument models and of the models nested in them. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BaseToolState(BaseModel):
    """The memory of a tool between its calls. Each agent has one state per tool."""


class ToolStreamLine(BaseModel):
    """One line of output from a running tool.

    ``stream`` and ``dropped_bytes`` have the same meaning as in the ``tool.stream`` event.
    """

    tool_name: str
    message: str
    tool_call_id: str
    stream: str = ""
    dropped_bytes: int = 0


ToolStreamEvent = ToolStreamLine
"""The name Mistral Vibe uses for it."""


class TextResult(BaseModel):
    """The result of a tool that returns plain text."""

    text: str


class InvokeContext(Struct, frozen=True, kw_only=True):
    """The surroundings of one tool call."""

    tool_call_id: str = ""
    workspace: Workspace
    """The agent's own workspace. The process has no working directory to rely on."""
    reads: ReadTracker = field(default_factory=ReadTracker)
    """Which version of which file the agent has seen."""
    output_dir: Path | None = None
    """The folder where the whole of a truncated output is kept."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment that child processes get."""
    approval_callback: Callable[..., Any] | None = None
    agent_manager: Any = None
    user_input_callback: UserInput | None = None
    """Asks the user questions. None if no user is there."""
    subagents: SubagentSpawner | None = None
    """Starts subagents. None if the agent may start none."""
    commands: Commands | None = None
    """Starts commands. None if they run as child processes of this one."""
    background: BackgroundCommands | None = None
    """Keeps commands running after their call. None if none may outlive it."""
    skills: AgentSkills | None = None
    """The agent's skills. None if it has none."""
    memory: AgentMemory | None = None
    """The agent's memory. None if it has none."""
    confinement: Confinement | None = None
    """Confines commands. None if they run with the user's own rights."""
    network: Network | None = None
    """The network access of commands. None if the settings decide."""
    sees_images: bool = False
    """True if the model accepts images."""
    read_only: bool = False
    """True if the call was allowed without asking because it runs where it can only read."""
    only_reads: bool = False
    """True if the call was found to do nothing but read, wherever it runs."""


_ROOT: ContextVar[Path | None] = ContextVar("tool_root", default=None)
"""The root of the agent whose tool call runs in the current task."""

Args = TypeVar("Args", bound=BaseModel)
Result = TypeVar("Result", bound=BaseModel)
Config = TypeVar("Config", bound=BaseToolConfig)
State = TypeVar("State", bound=BaseToolState)


class MistralHooks:
    """Permission hooks of Mistral Vibe 2.x, which a tool may define.

    Each returns a permission, an object that has one, or None for no opinion.
    """

    def check_allowlist_denylist(self, args: Any) -> Any:
        """Compare the call's text arguments with the tool's lists."""
        config = cast("Any", self).config
        texts = (value for value in schema.keyword_values(args).values() if isinstance(value, str))
        return match_lists(texts, config.allowlist, config.denylist)

    def resolve_permission(self, args: Any) -> Any:  # noqa: ARG002  overridden by tools of Mistral Vibe
        """Return the permission for a call."""
        return None


def assess_by_hooks(tool: MistralHooks, args: Any) -> Assessment:
    """Return the hooks' assessment: a denial by a list stands, otherwise ``resolve_permission`` takes precedence."""
    by_lists, by_rules = tool.check_allowlist_denylist(args), tool.resolve_permission(args)
    answer = by_lists if by_rules is None or _permission(by_lists) is ToolPermission.NEVER else by_rules
    return Assessment(listed=_permission(answer), reason=str(getattr(answer, "reason", None) or ""))


def _permission(answer: Any) -> ToolPermission | None:
    given = getattr(answer, "permission", answer)
    return None if given is None else ToolPermission(given)


class BaseTool(MistralHooks, ABC, Generic[Args, Result, Config, State]):  # noqa: PLR0904  the interface
    """The base class of tools.

    ``BaseTool[Config]`` is short for a tool that takes its arguments from the signature of ``run``, returns text and
    has no state.
    """

    description: ClassVar[str] = ""
    read_only: ClassVar[bool] = False
    """The tool only reads: its calls in one turn run concurrently, and ``safe`` agents have no other tools."""
    edits_files: ClassVar[bool] = False
    """The tool does nothing but write the files that ``assess`` names, so approving all edits approves its calls."""
    path_argument: ClassVar[str] = ""
    """The name of the argument that holds the only path a call touches; it is written if the tool ``edits_files``."""
    changes_files: ClassVar[bool] = True
    """The tool may change files: unless ``read_only``, it takes turns with other runs that write in the same folder."""
    uses_network: ClassVar[bool] = False
    """The tool uses the network: ``safe`` agents don't have it."""
    interactive: ClassVar[bool] = False
    """The tool is only offered where a person can answer."""
    ends_work: ClassVar[bool] = False
    """The host gives this tool to an agent, and no skill can take it away."""
    unsandboxed_arguments: ClassVar[type[BaseModel] | None] = None
    """The argument model to use when the sandbox is off, if it differs."""

    def __init__(self, config: Config, state: State) -> None:
        self.config = config
        self.state = state

    def __class_getitem__(cls, params: Any) -> Any:
        """Accept the short forms ``[Config]``, ``[Args, Result]`` and ``[Args, Result, Config]``."""
        given: tuple[Any, ...] = cast("tuple[Any, ...]", params) if isinstance(params, tuple) else (params,)
        if cls is BaseTool and len(given) == 1:
            given = (schema.KeywordArguments, TextResult, *given, BaseToolState)
        elif cls is BaseTool and len(given) < 4:
            given = (*given, *(BaseToolConfig, BaseToolState)[len(given) - 2 :])
        subscribe = cast("Callable[[Any], Any]", getattr(super(), "__class_getitem__"))  # noqa: B009  unknown to stubs
        return subscribe(given)

    @abstractmethod
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the tool's work. The module docstring describes the three shapes.

        Raises:
            ToolError: the work could not be done; the model reads the message.
        """

    @classmethod
    def get_name(cls) -> str:
        """Return the name the model calls the tool by: the class name in snake_case."""
        return _in_snake_case(cls.__name__)

    @classmethod
    def get_description(cls) -> str:
        """Return the text for the model: ``description``, else the docstring of the class, else that of ``run``."""
        for text in (cls.description, cls.__doc__, cls.__dict__.get("run").__doc__):
            if text and text.strip():
                return inspect.cleandoc(text)
        return cls.get_name()

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, with the same bytes every time."""
        return schema.parameter_schema(cls.args_model())

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """Return the text of ``prompts/<name>.md`` (or ``prompts/<module>.md``) beside the tool's module, or None.

        Reads files.
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
        """Return the tool's prompt under these settings, or None. Reads files."""
        return cls.get_tool_prompt()

    @classmethod
    def args_model(cls) -> type[BaseModel]:
        """Return the model the arguments are validated against."""
        return _args_model(cls)

    @classmethod
    def config_class(cls) -> type[BaseToolConfig]:
        """Return the model of the tool's ``[tools.<name>]`` table."""
        return schema.type_argument(cls, BaseTool, 2, BaseToolConfig)

    @classmethod
    def state_class(cls) -> type[BaseToolState]:
        """Return the model of the tool's state."""
        return schema.type_argument(cls, BaseTool, 3, BaseToolState)

    @classmethod
    def from_config(cls, config: BaseToolConfig) -> AnyTool:
        """Return a new instance with a state of its own."""
        return cls(cast("Config", config), cast("State", cls.state_class()()))

    def assess(self, args: Args, workspace: Workspace) -> Assessment:  # noqa: ARG002  for tools with paths to follow
        """Judge a call: return what it touches and what the tool's own rules say about it.

        Called once per call, and may read the file system. By default it names the path in ``path_argument``. A tool
        without one has its text arguments compared with the lists.
        """
        if self.path_argument:
            return Assessment(paths=(PathAccess(path=getattr(args, self.path_argument), write=self.edits_files),))
        return assess_by_hooks(self, args)

    def summarize(self, args: Args) -> str:
        """Return the call on one line, for people: ``write_file src/a.py``."""
        texts = (value for value in schema.keyword_values(args).values() if isinstance(value, str) and value.strip())
        return self.named(next(texts, ""))

    def named(self, about: str) -> str:
        """Return the tool's name followed by ``about``, on one line of at most SUMMARY_LENGTH characters."""
        return shortened(" ".join(f"{self.get_name()} {about}".split()), SUMMARY_LENGTH)

    def format_result(self, result: Result) -> str:
        """Return the text of a result for the model: plain text as it is, a model as ``field: value`` lines."""
        if isinstance(result, TextResult):
            return result.text
        return "\n".join(f"{name}: {_as_text(value)}" for name, value in result.model_dump(mode="json").items())

    def diff(self, result: Result) -> str:  # noqa: ARG002  overridden by writing tools
        """Return what the call changed, as a diff."""
        return ""

    def outlook(self, args: Args, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:  # noqa: ARG002  overridden
        """Return what the call would do and where, as data for the person who is asked to approve it. Reads files.

        If ``sandboxed``, commands run in a sandbox unless they ask not to.

        Raises:
            ToolError: the call would fail with this error.
        """
        return CallOutlook(cwd=str(workspace.root))

    def display(self, result: Result) -> Display | None:  # noqa: ARG002  overridden by tools with more to show than text
        """Return the result as data that a screen can draw, or None if there is only its text."""
        return None

    def files_changed(self, result: Result) -> tuple[str, ...]:  # noqa: ARG002  overridden by writing tools
        """Return the workspace-relative paths of the files the call changed."""
        return ()

    def images(self, result: Result) -> tuple[Image, ...]:  # noqa: ARG002  overridden by tools that show pictures
        """Return the images that the model should see beside the text."""
        return ()

    def denials(self, result: Result) -> tuple[Denial, ...]:  # noqa: ARG002  overridden by tools that start agents
        """Return the calls that were denied to agents that worked on behalf of this call."""
        return ()

    def remarks(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the ``REMARKS`` among the arguments that the tool would refuse, and that are ignored."""
        refuses = self.args_model().model_config.get("extra") == "forbid"
        return tuple(REMARKS.intersection(raw).difference(self.get_parameters()["properties"])) if refuses else ()

    def parse(self, raw: Mapping[str, Any]) -> Args:
        """Validate the raw arguments of a call.

        Raises:
            ToolArgumentsError: they don't fit; the message names the schema path of each problem.
        """
        ignored = self.remarks(raw)
        try:
            return cast("Args", self.args_model().model_validate({key: raw[key] for key in raw if key not in ignored}))
        except ValidationError as error:
            problems = schema.describe_problems(error, "arguments")
            if any(problem["type"] == "extra_forbidden" for problem in error.errors()):
                problems += (f"it takes {', '.join(self.get_parameters()['properties']) or 'no arguments'}",)
            raise ToolArgumentsError(self.get_name(), problems) from error

    async def execute(self, args: Args, ctx: InvokeContext, show: Callable[[ToolStreamLine], None]) -> Result:
        """Run the tool with validated arguments, whatever its shape. ``show`` receives the lines it streams.

        Raises:
            ToolError: the work could not be done, or the tool ended without a result.
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
        """Validate the arguments and run the tool: yield streamed lines, then one result.

        Raises:
            ToolError: the arguments don't fit (at once), or the work could not be done (while iterating).
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
        positional, named = shape_of(type(self).run).call_arguments(args, ctx)
        return self.run(*positional, **named)


AnyTool: TypeAlias = BaseTool[Any, Any, Any, Any]
ToolClass: TypeAlias = type[AnyTool]


class RunShape(Struct, frozen=True, kw_only=True):
    """The calling convention of a tool's ``run``."""

    streams: bool
    """It is an async generator."""
    names_context: bool
    """It has a parameter called ``ctx``."""
    takes_second: bool
    """Its second required parameter, under another name, takes the context."""

    def call_arguments(self, args: BaseModel | None, ctx: InvokeContext | None) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the positional and the keyword arguments to call it with."""
        named: dict[str, Any] = {schema.CONTEXT_PARAMETER: ctx} if self.names_context else {}
        if isinstance(args, schema.KeywordArguments):
            return (), schema.keyword_values(args) | named
        return (args, ctx) if self.takes_second else (args,), named


@lru_cache(maxsize=512)
def shape_of(run: Callable[..., Any]) -> RunShape:
    """Return the shape of a class's ``run``. Cached, because inspecting a signature is slow."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    names_context = any(one.name == schema.CONTEXT_PARAMETER for one in parameters)
    takes_second = not names_context and len(parameters) > 1 and parameters[1].default is inspect.Parameter.empty
    return RunShape(streams=inspect.isasyncgenfunction(run), names_context=names_context, takes_second=takes_second)


@lru_cache(maxsize=512)
def _in_snake_case(name: str) -> str:
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()


@lru_cache(maxsize=512)
def _args_model(cls: ToolClass) -> type[BaseModel]:
    named = schema.type_argument(cls, BaseTool, 0, BaseModel)
    return schema.derive_arguments(cls.get_name(), cls.run) if named is schema.KeywordArguments else named


def _as_result(value: Any) -> Any:
    return value if isinstance(value, BaseModel) else TextResult(text="" if value is None else _as_text(value))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
