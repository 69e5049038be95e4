"""Options of a program's sessions and plans: what may be given, by name, and Home, the surroundings they run in."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, cast

from msgspec.structs import replace

from ipc.events import ApprovalRequestEvent, Event, PlanDecisionEvent
from vibe.app.engine.host import HOME_VARIABLE, Host, existing_folder, vibe_home
from vibe.core.tools.ports import ApprovalAnswer
from vibe.system.errors import EnvironmentFailure, UsageError, VibeError, innermost
from vibe.system.plain_text import shortened
from vibe.system.programs import guarded

if TYPE_CHECKING:
    from subagents.executor import StepExecutor, StepTask

Fits: TypeAlias = "type | Callable[[object], bool] | tuple[Fits, ...]"
Kind: TypeAlias = tuple[Fits, str]
StrPath: TypeAlias = str | PathLike[str]
Verdict: TypeAlias = bool | ApprovalAnswer
Approve: TypeAlias = Callable[[ApprovalRequestEvent], Verdict | Awaitable[Verdict]] | Literal["edits", True] | None
Replies: TypeAlias = Sequence[str | Sequence[str]] | None
Hooked: TypeAlias = Callable[[dict[str, Any]], Any] | Sequence[Callable[[dict[str, Any]], Any]]
Ask: TypeAlias = Callable[[Any], Replies | Awaitable[Replies]]


@dataclass(frozen=True, kw_only=True)
class Home:
    """The user's vibe folder, and the variables that a run sees; None: those of this process, now.

    Runs that are given the same one share the limits of each provider.
    """

    folder: StrPath | None = None
    environ: Mapping[str, str] | None = None
    host: Host = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(folder=self.folder, environ=self.environ)
        here = _here()
        environ = dict(os.environ if self.environ is None else self.environ)
        if self.folder is not None:
            environ[HOME_VARIABLE] = os.fspath(self.folder)
        host = Host(home=vibe_home(environ, here), environ=guarded(environ, [here]))
        object.__setattr__(self, "host", host)


class CommonOptions(TypedDict, total=False):
    """The options of all work; what is left out is as configured, as on the command line."""

    workdir: StrPath
    """The folder of the work; without it the process's own. A plan that is resumed has that in which it was begun."""
    model: str | None
    """Of the agents that name none."""
    config: Mapping[str, Any]
    """Settings by dotted key, which go before all files and variables; see the reference of settings."""
    home: Home | StrPath | None
    """A path is that of the vibe folder."""
    ask: Ask | None
    """Gets the agent's questions and returns an answer to each: a label, several, or own words; None: no answer."""
    on_event: Callable[[Event], object] | None
    """Gets every event, in order, on the loop: it must not block."""
    trust: bool
    """Read the folder's ``.vibe`` and ``AGENTS.md``, whoever wrote them."""


class AgentOptions(CommonOptions, total=False):
    """Those of work by agents that act."""

    approve: Approve
    """Calls that have to be asked about: None denies them, ``"edits"`` lets edits of files pass, True all that no rule
    denies; a function of the request returns a bool, or an ``Approval``."""
    tools: Sequence[Callable[..., Any]]
    """Functions of the program, plain or async, or made with ``@tool``; ``BaseTool`` classes, too."""
    hooks: Mapping[str, Hooked]
    """By ``before_tool``, ``after_tool`` or ``post_agent_turn``: functions of the documented payload. They return None,
    a text (of ``before_tool`` the reason of a denial, else a message to the model) or the documented answer."""


class SessionOptions(AgentOptions, total=False):
    """The options of a session."""

    agent: str | None
    instructions: str
    """Added to those of the settings."""
    resume: str | None
    """The session to go on with: its id, the beginning of it, or ``"latest"``, the last of the folder."""
    fork: bool
    """Go on in a copy of it."""
    add_dirs: Sequence[StrPath]
    """Further folders that the agent may read and write in."""
    read_only: bool
    """Nothing is written, and no network is reached."""


class PromptOptions(TypedDict, total=False):
    """The options of one prompt; limits count from its sending on."""

    images: Sequence[StrPath]
    expand: bool
    """``/name`` and ``@path`` in the prompt mean what they mean to a person."""
    max_turns: int | None
    max_tokens: int | None
    max_price: float | None
    """In USD."""
    time_limit: float | None
    """In seconds."""
    check: bool
    """Raise ``NotCompleted`` where it did not complete; False: return how far it came."""


class QueryOptions(SessionOptions, PromptOptions, total=False):
    """Those of a prompt, and of the session it has."""


Chosen: TypeAlias = str | Sequence[str] | None
Decide: TypeAlias = Callable[[PlanDecisionEvent], Chosen | Awaitable[Chosen]]
StepFunction: TypeAlias = "Callable[[StepTask], Any | Awaitable[Any]]"


class PlanOptions(AgentOptions, total=False):
    """The options of a plan's run; what is left out is as the plan has it, as configured, or as it was begun."""

    decide: Mapping[str, str | Sequence[str]] | Decide | None
    """Takes decisions: a mapping from their ids, or a function of the decision's event that returns an option, several,
    or None to leave it open."""
    inputs: Mapping[str, object] | None
    """Values of the plan's inputs, by name; a resume has those it was begun with."""
    functions: Mapping[str, StepFunction] | None
    """Do steps, by their ids: each gets the ``StepTask`` and returns a text, a value, or a ``StepResult``."""
    executor: str | StepExecutor
    """Does the steps: the name of one, or an object of the program."""
    max_parallel: int | None
    only: Sequence[str]
    """The steps to run, with what they depend on: ids or ``tag:NAME``; a resume has those it was begun with."""
    fail_fast: bool
    """Start nothing more once a step has failed."""
    accept_commands: bool
    """The commands of a plan that a model wrote may run, and its steps edit the files they name: it was read."""
    allow_dirty: bool
    """Worktrees may start from what is not committed; those of a resume always may."""
    check: bool
    """Raise ``NotCompleted`` where it did not complete; False: return how far it came."""


class MakePlanOptions(CommonOptions, total=False):
    """The options of having a plan written; nothing is written in the folder it is for."""

    max_tokens: int | None
    max_price: float | None
    """In USD."""


Options = TypeVar("Options", bound=Mapping[str, Any])


def is_list(given: object) -> bool:
    """Say whether that is several things, where a text is one."""
    return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)


def is_text(given: object) -> bool:
    """Say whether that is a text that can be written down."""
    return isinstance(given, str) and given == given.encode("utf-8", "replace").decode()


def _is_name(given: object) -> bool:
    return is_text(given) and bool(cast("str", given).strip())


def _is_path(given: object) -> bool:
    path = os.fspath(cast("StrPath", given)) if isinstance(given, PathLike) else given
    return _is_name(path) and "\0" not in cast("str", path)


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < math.inf


def _is_count(given: object) -> bool:
    return isinstance(given, int) and _is_number(given)


def _is(fits: Fits, given: object) -> bool:
    if isinstance(fits, tuple):
        return any(_is(one, given) for one in cast("tuple[Fits, ...]", fits))
    return isinstance(given, fits) if isinstance(fits, type) else fits(given)


def _is_list_of(fits: Fits, given: object) -> bool:
    return is_list(given) and all(_is(fits, one) for one in cast("Collection[object]", given))


def _is_mapping_to(fits: Fits, given: object) -> bool:
    entries = cast("Mapping[object, object]", given if isinstance(given, Mapping) else {None: None})
    return all(is_text(name) and _is(fits, value) for name, value in entries.items())


def _is_mode(given: object) -> bool:
    return given is True or (isinstance(given, str) and given == "edits")


def _is_permission(given: object) -> bool:
    return isinstance(given, str) and given in {"always", "ask", "never"}


def _is_listener(given: object) -> bool:
    return callable(given) and not inspect.iscoroutinefunction(given)


def _is_type(given: object) -> bool:
    return not isinstance(given, str | bytes | Mapping) or _MAPPING(cast("object", given))


def _is_executor(given: object) -> bool:
    return callable(getattr(given, "run", None)) and not isinstance(given, type)


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
    "permission": (_is_permission, "'always', 'ask' or 'never'"),
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
"""What a parameter has to be, and how that is said."""
GIVEN: Mapping[str, str] = MappingProxyType({"config": "values", "instructions": "instructions"})
"""The options that are settings, by what they are among those of a run."""
MOST_TOLD = 200
"""Characters of a wrong value that are told."""
NEEDED = frozenset({"goal", "plan", "plan_id", "prompt", "step", "text", "workdir"})
"""Parameters that None does not leave out."""


def check(**given: Any) -> None:
    """Refuse values that are no such thing.

    Raises:
        UsageError: there is one.
    """
    for name, value in given.items():
        fits, wanted = KINDS[name]
        if not (_is(fits, value) or (value is None and name not in NEEDED)):
            raise UsageError(f"{name}={shortened(repr(value), MOST_TOLD)}: give {wanted}")


def checked(given: Options, kind: Any, function: str) -> Options:
    """Return the options that are given; None leaves one out.

    Raises:
        TypeError: there is none of that name, as Python says it.
        UsageError: a value is no such thing.
    """
    for name in given.keys() - kind.__annotations__.keys():
        raise TypeError(f"{function} got an unexpected keyword argument {name!r}")
    check(**given)
    return cast("Options", {name: value for name, value in given.items() if value is not None})


def document(name: str, given: Mapping[str, Any]) -> bytes:
    """Return a mapping of the program as JSON.

    Raises:
        UsageError: it is none.
    """
    try:
        return json.dumps(given).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: is no JSON: {error}") from error


FLAGS: Mapping[re.Pattern[str], str] = MappingProxyType({
    re.compile(r"--decide (\S+?)(?==|: )"): r"decide['\1']",
    re.compile(r"--with (\w+)=VALUE"): r"inputs={'\1': VALUE}",
    re.compile(r"(?<=with )--(model|only)\b|--(executor|instructions)\b ?"): r"\1\2=",
    re.compile(r"--allow-dirty\b"): "allow_dirty=True",
    re.compile(r"\brun with --trust\b"): "give trust=True",
    re.compile(r"--auto-approve, or at a terminal"): "approve=",
})
"""Flags that sentences of ours name, and what programs call them."""


def in_parameters(said: str) -> str:
    """Return a sentence in the words of parameters in place of flags."""
    for flag, parameter in FLAGS.items():
        said = flag.sub(parameter, said)
    return said


def raised(error: BaseException) -> BaseException:
    """Return an error as a program gets it: the one in a group, in the words of parameters in place of flags."""
    inner = innermost(error)
    if isinstance(inner, VibeError) and (said := in_parameters(str(inner))) != str(inner):
        inner.args = (said,)
    return inner


def surroundings(options: Mapping[str, Any]) -> tuple[Host, Path]:
    """Return the host that a program wants its runs on, with its settings for them, and the folder they work in.

    Raises:
        UsageError: there is no such folder.
        EnvironmentFailure: there is no home directory.
    """
    home: Home | StrPath | None = options.get("home")
    host = (home if isinstance(home, Home) else Home(folder=home)).host
    given = {name: options[option] for option, name in GIVEN.items() if options.get(option)}
    if given:
        from vibe.core.config.loader import GivenSettings  # noqa: PLC0415  most programs give none, and start fast

        host = replace(host, given=GivenSettings(named="config", **given))
    return host, folder_named(options.get("workdir", "."), "workdir")


def folder_named(given: StrPath, argument: str) -> Path:
    """Return a folder that a program names, as from the one the process is in.

    Raises:
        UsageError: there is none that can be used.
    """
    return existing_folder(argument, os.fspath(given), _here())


def _here() -> Path:
    try:
        return Path.cwd()  # noqa: TID251  a program's words are about the folder it is in
    except OSError as error:
        raise EnvironmentFailure(
            f"the folder this process is in is gone ({error.strerror}): os.chdir() to another"
        ) from error
