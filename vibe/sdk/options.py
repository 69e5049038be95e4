"""The options of sessions, prompts and plans, and ``Home``, the surroundings they run in."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, cast

from msgspec.structs import replace

from ipc.errors import IpcError
from ipc.events import ApprovalRequestEvent, Event, PlanDecisionEvent
from vibe.app.engine.host import HOME_VARIABLE, Host, existing_folder, vibe_home
from vibe.core.tools.ports import ApprovalAnswer
from vibe.system.errors import EnvironmentFailure, UsageError, VibeError, error_as, innermost, os_error_as
from vibe.system.plain_text import shortened
from vibe.system.programs import guarded

if TYPE_CHECKING:
    from subagents.executor import StepExecutor, StepTask

Fits: TypeAlias = "type | Callable[[object], bool] | tuple[Fits, ...]"
Kind: TypeAlias = tuple[Fits, str]
StrPath: TypeAlias = str | os.PathLike[str]
Verdict: TypeAlias = bool | ApprovalAnswer
Approve: TypeAlias = Callable[[ApprovalRequestEvent], Verdict | Awaitable[Verdict]] | Literal["edits", True] | None
Replies: TypeAlias = Sequence[str | Sequence[str]] | None
Hooked: TypeAlias = Callable[[dict[str, Any]], Any] | Sequence[Callable[[dict[str, Any]], Any]]
Ask: TypeAlias = Callable[[Any], Replies | Awaitable[Replies]]


@dataclass(frozen=True, kw_only=True)
class Home:
    """The vibe folder and the environment variables that a run uses.

    ``folder`` and ``environ`` default to those of this process at this moment. Runs that are given the same ``Home``
    share each provider's limits.
    """

    folder: StrPath | None = None
    environ: Mapping[str, str] | None = None
    host: Host = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(folder=self.folder, environ=self.environ)
        here = _current_folder()
        environ = dict(os.environ if self.environ is None else self.environ)
        if self.folder is not None:
            environ[HOME_VARIABLE] = os.fspath(self.folder)
        host = Host(home=vibe_home(environ, here), environ=guarded(environ, [here]))
        object.__setattr__(self, "host", host)


class CommonOptions(TypedDict, total=False):
    """The options of all kinds of work. An option that is left out is as configured, as on the command line."""

    workdir: StrPath
    """The folder to work in, by default the process's own. A resumed plan keeps the one it was begun in."""
    model: str | None
    """The model of agents that name none."""
    config: Mapping[str, Any]
    """Settings by dotted key. They take precedence over all settings files and environment variables."""
    home: Home | StrPath | None
    """The surroundings to run in. A path means the vibe folder."""
    ask: Ask | None
    """Called with the agent's questions. Returns an answer to each (a label, several labels, or a text of its own), or
    None to give no answer. Without it, no agent asks."""
    on_event: Callable[[Event], object] | None
    """Called with every event, in order, on the event loop. It must not block."""
    trust: bool
    """Read the ``.vibe`` folder and ``AGENTS.md`` of the working folder, whoever wrote them."""


class AgentOptions(CommonOptions, total=False):
    """The options of work that is done by agents."""

    approve: Approve
    """Decides about tool calls that need approval. None denies them, ``"edits"`` allows edits of files, and True allows
    everything that no rule denies. A function takes the request and returns a bool or an ``Approval``."""
    tools: Sequence[Callable[..., Any]]
    """Further tools: plain or async functions of the program, tools made with ``@tool``, and ``BaseTool`` classes."""
    hooks: Mapping[str, Hooked]
    """Functions by the event they are called on: ``before_tool``, ``after_tool`` or ``post_agent_turn``. Each takes the
    documented payload and returns None, a text, or the documented answer. A text is the reason for a denial before a
    tool call, and otherwise a message to the model."""


class SessionOptions(AgentOptions, total=False):
    """The options of a session."""

    agent: str | None
    instructions: str
    """Instructions to add to those of the settings."""
    resume: str | None
    """The session to continue: its id, the beginning of its id, or ``"latest"`` for the folder's last one."""
    fork: bool
    """Continue in a copy of the resumed session."""
    add_dirs: Sequence[StrPath]
    """Further folders in which the agent may read and write."""
    read_only: bool
    """Write nothing, and use no network."""


class PromptOptions(TypedDict, total=False):
    """The options of one prompt. Its limits count from when it is sent."""

    images: Sequence[StrPath]
    expand: bool
    """Expand ``/name`` and ``@path`` in the prompt, as for a person at the screen."""
    max_turns: int | None
    max_tokens: int | None
    max_price: float | None
    """In USD."""
    time_limit: float | None
    """In seconds."""
    check: bool
    """Raise ``NotCompleted`` if the prompt does not complete (the default). If False, return how far it came."""


class QueryOptions(SessionOptions, PromptOptions, total=False):
    """The options of a query: those of its prompt and of its session."""


Chosen: TypeAlias = str | Sequence[str] | None
Decide: TypeAlias = Callable[[PlanDecisionEvent], Chosen | Awaitable[Chosen]]
StepFunction: TypeAlias = "Callable[[StepTask], Any | Awaitable[Any]]"


class PlanOptions(AgentOptions, total=False):
    """The options of running a plan.

    An option that is left out is as the plan says, as configured, or as the plan was begun.
    """

    decide: Mapping[str, str | Sequence[str]] | Decide | None
    """Answers the plan's decisions. Either a mapping from decision ids to options, or a function that takes the
    decision's event and returns an option, several options, or None to leave the decision open."""
    inputs: Mapping[str, object] | None
    """Values of the plan's inputs, by name. A resumed plan keeps the values it was begun with."""
    functions: Mapping[str, StepFunction] | None
    """Functions that do steps, by step id. Each takes the ``StepTask`` and returns a text, a value, or a
    ``StepResult``."""
    executor: str | StepExecutor
    """The executor that does the steps: its name, or an object of the program."""
    max_parallel: int | None
    only: Sequence[str]
    """The steps to run, by id or as ``tag:NAME``; the steps they depend on run too. A resumed plan keeps its own
    selection."""
    fail_fast: bool
    """Start no more steps once one has failed."""
    accept_commands: bool
    """Let the commands of a plan that a model wrote run, and let its steps edit the files they name. Read the plan
    first."""
    allow_dirty: bool
    """Let worktrees start from a working tree with uncommitted changes. Those of a resumed plan always may."""
    check: bool
    """Raise ``NotCompleted`` if the plan does not complete (the default). If False, return how far it came."""


class MakePlanOptions(CommonOptions, total=False):
    """The options of having a plan written. Nothing is written in the folder that the plan is for."""

    max_tokens: int | None
    max_price: float | None
    """In USD."""


Options = TypeVar("Options", bound=Mapping[str, Any])


def is_list(value: object) -> bool:
    """Return whether a value is a collection of several things. A text, bytes or a mapping is not."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def is_text(value: object) -> bool:
    """Return whether a value is a text that can be encoded as UTF-8."""
    return isinstance(value, str) and value == value.encode("utf-8", "replace").decode()


def _is_name(value: object) -> bool:
    return is_text(value) and bool(cast("str", value).strip())


def _is_path(value: object) -> bool:
    path = os.fspath(cast("StrPath", value)) if isinstance(value, os.PathLike) else value
    return _is_name(path) and "\0" not in cast("str", path)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is(fits: Fits, value: object) -> bool:
    if isinstance(fits, tuple):
        return any(_is(one, value) for one in cast("tuple[Fits, ...]", fits))
    return isinstance(value, fits) if isinstance(fits, type) else fits(value)


def _is_list_of(fits: Fits, value: object) -> bool:
    return is_list(value) and all(_is(fits, one) for one in cast("Collection[object]", value))


def _is_mapping_to(fits: Fits, value: object) -> bool:
    entries = cast("Mapping[object, object]", value if isinstance(value, Mapping) else {None: None})
    return all(is_text(name) and _is(fits, value) for name, value in entries.items())


def _is_mode(value: object) -> bool:
    return value is True or (isinstance(value, str) and value == "edits")


def _is_listener(value: object) -> bool:
    return callable(value) and not inspect.iscoroutinefunction(value)


def _is_type(value: object) -> bool:
    return not isinstance(value, str | bytes | FunctionType | Mapping) or _MAPPING(cast("object", value))


def _is_executor(value: object) -> bool:
    return callable(getattr(value, "run", None)) and not isinstance(value, type)


_MAPPING, _CALLS = partial(_is_mapping_to, object), partial(_is_list_of, callable)
_TEXTS = ("description", "instructions", "name", "prompt", "step", "text")
_FLAGS = ("accept_commands", "allow_dirty", "check", "expand", "fail_fast", "fork", "read_only", "trust")
KINDS: Mapping[str, Kind] = MappingProxyType({
    "output": (_is_type, "a type that pydantic knows, or a JSON Schema"),
    "goal": (_is_name, "a text that says what the plan must achieve"),
    "plan": ((_MAPPING, _is_path), "a Plan, a mapping, or the path of a file"),
    "plan_id": (_is_name, "the id of a plan, or its beginning"),
    "environ": (partial(_is_mapping_to, str), "a mapping from variables to texts"),
    "home": ((Home, _is_path), "a Home, or the path of a folder"),
    "config": (_MAPPING, "a mapping from dotted keys to values"),
    "permission": (("always", "ask", "never").__contains__, "'always', 'ask' or 'never'"),
    "approve": ((callable, _is_mode), "a function, 'edits', True or None"),
    "ask": (callable, "a function of the questions"),
    "on_event": (_is_listener, "a plain function of the event: nobody would await another"),
    "hooks": (partial(_is_mapping_to, (callable, _CALLS)), "a mapping from events to a function, or a list of them"),
    "tools": (_CALLS, "a list of functions"),
    "resume": (_is_name, "the id of a session, or 'latest'"),
    "decide": ((callable, _MAPPING), "a mapping, or a function of the decision"),
    "inputs": (_MAPPING, "a mapping from inputs to values"),
    "functions": (partial(_is_mapping_to, callable), "a mapping from steps to functions"),
    "executor": ((_is_name, _is_executor), "a name, or an object with `async run(task, stop)`"),
    "only": (partial(_is_list_of, _is_name), "a list of steps"),
    **dict.fromkeys(_TEXTS, (is_text, "a text of characters that UTF-8 has")),
    **dict.fromkeys(("folder", "workdir"), (_is_path, "the path of a folder")),
    **dict.fromkeys(("add_dirs", "images"), (partial(_is_list_of, _is_path), "a list of paths")),
    **dict.fromkeys(("agent", "model"), (_is_name, "a name")),
    **dict.fromkeys(("max_parallel", "max_tokens", "max_turns"), (_is_count, "a whole number above 0")),
    **dict.fromkeys(("max_price", "time_limit"), (_is_number, "a number above 0")),
    **dict.fromkeys(_FLAGS, (bool, "True or False")),
})
"""For each parameter, the values it may have and how a message describes them."""
MAX_VALUE_LENGTH = 200
"""The most characters of a wrong value that a message quotes."""
NEEDED = frozenset({"goal", "plan", "plan_id", "prompt", "step", "text", "workdir"})
"""Parameters for which None is a wrong value. For all others it means that they are left out."""


def check(**given: Any) -> None:
    """Check arguments against the kinds of value they may have.

    Raises:
        UsageError: a value is of another kind.
    """
    for name, value in given.items():
        fits, wanted = KINDS[name]
        if not (_is(fits, value) or (value is None and name not in NEEDED)):
            raise UsageError(f"{name}={shortened(repr(value), MAX_VALUE_LENGTH)}: give {wanted}")


def checked(given: Options, kind: Any, function: str) -> Options:
    """Return the options that were given; None counts as left out.

    Raises:
        TypeError: there is no option of a given name, worded as Python words it.
        UsageError: a value is of the wrong kind.
    """
    for name in given.keys() - kind.__annotations__.keys():
        raise TypeError(f"{function} got an unexpected keyword argument {name!r}")
    check(**given)
    return cast("Options", {name: value for name, value in given.items() if value is not None})


def document(name: str, given: Mapping[str, Any]) -> bytes:
    """Encode a mapping of the program as JSON.

    Raises:
        UsageError: it can't be written as JSON.
    """
    with error_as((TypeError, ValueError, RecursionError), lambda error: UsageError(f"{name}: is not JSON: {error}")):
        return json.dumps(given).encode()


FLAGS: Mapping[re.Pattern[str], str] = MappingProxyType({
    re.compile(r"--decide (\S+?)(?==|: )"): r"decide['\1']",
    re.compile(r"--with (\w+)=VALUE"): r"inputs={'\1': VALUE}",
    re.compile(r"(?<=with )--(model|only)\b(?: or /model)?|--(executor|instructions)\b ?"): r"\1\2=",
    re.compile(r"--allow-dirty\b"): "allow_dirty=True",
    re.compile(r"\brun with --trust\b"): "give trust=True",
    re.compile(r"--auto-approve, or at a terminal"): "approve=",
})
"""The command line's flags as they appear in messages, and what a program writes instead."""


def in_parameters(text: str) -> str:
    """Return a message with command line flags replaced by the parameters of the SDK."""
    for flag, parameter in FLAGS.items():
        text = flag.sub(parameter, text)
    return text


class ProgramError(Exception):
    """Takes what a callback raised, whatever it is, out through the tasks and groups that the work runs in."""


def raised(error: BaseException) -> BaseException:
    """Return an error as a program gets it: out of its exception group, and worded in parameters rather than flags."""
    inner = innermost(error)
    if isinstance(inner, ProgramError):
        return inner.args[0]
    if isinstance(inner, IpcError):
        inner = EnvironmentFailure(str(inner)).with_traceback(inner.__traceback__)
    if isinstance(inner, VibeError) and (text := in_parameters(str(inner))) != str(inner):
        inner.args = (text,)
    return inner


def surroundings(options: Mapping[str, Any]) -> tuple[Host, Path]:
    """Return the host, with the program's settings applied, and the working folder for a program's options.

    Raises:
        UsageError: the folder does not exist.
        EnvironmentFailure: there is no home directory.
    """
    home: Home | StrPath | None = options.get("home")
    host = (home if isinstance(home, Home) else Home(folder=home)).host
    values: Mapping[str, Any] = options.get("config", {})
    instructions: str = options.get("instructions", "")
    if values or instructions:
        from vibe.core.config.loader import GivenSettings  # noqa: PLC0415  spares the import for programs that give none

        host = replace(host, given=GivenSettings(named="config", values=values, instructions=instructions))
    return host, folder_named(options.get("workdir", "."), "workdir")


def folder_named(given: StrPath, argument: str) -> Path:
    """Return a folder that a program names, relative to the current folder of the process.

    Raises:
        UsageError: it does not exist or can't be used.
    """
    return existing_folder(argument, os.fspath(given), _current_folder())


def _current_folder() -> Path:
    gone = "the folder this process is in is gone"
    with os_error_as(lambda error: EnvironmentFailure(f"{gone} ({error.strerror}): os.chdir() to another")):
        return Path.cwd()  # noqa: TID251  paths that a program gives are relative to its current folder
