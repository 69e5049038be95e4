"""Sessions and queries, in which an agent answers the prompts of a program, and its plans."""

from __future__ import annotations

import asyncio  # noqa: TID251  a session is held by a task of its own, which is no child of the caller's
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

from anyio import CancelScope, to_thread

from vibe.sdk.answer import Answer, PlanResult
from vibe.sdk.options import (
    MakePlanOptions,
    PlanOptions,
    PromptOptions,
    QueryOptions,
    SessionOptions,
    StrPath,
    check,
    checked,
    document,
    raised,
    surroundings,
)
from vibe.sdk.run import Run, RunWork, end_of, running_loop, told_in
from vibe.system.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.model import Plan
    from vibe.sdk.conversing import AskedPrompt, OpenTalk

T = TypeVar("T")


async def _engine() -> Any:
    """Return the engine, which comes with the first run: a program that only may want one starts fast."""
    return await to_thread.run_sync(import_module, "vibe.sdk.conversing")


async def _prepared(prompt: str, output: Any, options: PromptOptions) -> AskedPrompt:
    return await to_thread.run_sync((await _engine()).prepared, prompt, output, options)


class Session:
    """A conversation of a program with an agent, over many prompts; ``async with`` opens and closes it.

    See ``SessionOptions`` for what may be given. Its callbacks run with the context variables of its opening. A task of
    its own holds it, so that it may be opened, used and closed in different ones.

    Raises:
        UsageError: a folder is missing. What else is wrong is told by the opening, before anything is written.
    """

    _takes: Any = SessionOptions, "Session()"
    _hearer: RunWork[Any] | None = None
    """Hears it from its opening on."""

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        self._given = checked(options, *self._takes)
        self._host, self._workdir = surroundings(self._given)
        self._context: Context | None = None
        self._task: asyncio.Task[None] | None = None
        self._opened, self._closing, self._turn = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._error: BaseException | None = None
        self._talk: OpenTalk | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Open it.

        Raises:
            UsageError: an option, the session to resume or the configuration is wrong; or it was opened before.
            EnvironmentFailure: a key is missing, or the disk refuses.
        """
        if self._task is not None:
            raise UsageError("a session is opened once: make another, with resume= to go on")
        self._context = copy_context()
        self._task = running_loop().create_task(self._hold(), context=self._context)
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            await self.close()
            raise
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Interrupt what is at work, save and end, whatever becomes of the caller. A second call does nothing.

        Raises:
            EnvironmentFailure, ipc.errors.IpcError: its end could not be published.
        """
        if self._task is None or self._task.done():
            return
        self._check_loop(self._task)
        self._closing.set()
        await end_of(self._task)
        if self._error is not None and self._talk is not None:
            raise self._error

    @overload
    def send(self, prompt: str, *, output: type[T], **options: Unpack[PromptOptions]) -> Run[Answer[T]]: ...
    @overload
    def send(self, prompt: str, *, output: None = None, **options: Unpack[PromptOptions]) -> Run[Answer[None]]: ...
    @overload
    def send(self, prompt: str, *, output: object, **options: Unpack[PromptOptions]) -> Run[Answer[Any]]: ...

    def send(self, prompt: str, *, output: Any = None, **options: Unpack[PromptOptions]) -> Run[Answer[Any]]:
        """Have a prompt answered; prompts of one session wait for one another. See ``PromptOptions`` and ``query``."""
        check(prompt=prompt, output=output)
        asked = partial(_prepared, prompt, output, checked(options, PromptOptions, "send()"))
        return Run(RunWork(partial(self._answer, asked), self._context_of_opening))

    def steer(self, text: str) -> bool:
        """Tell the agent at work something before its next model call; False: none is at work."""
        check(text=text)
        talk = self._talk
        return talk is not None and told_in(self._task, talk.conversation.steer, text)

    def interrupt(self) -> None:
        """Stop the prompt at work; what was said so far stays in the conversation."""
        talk = self._talk
        if talk is not None:
            told_in(self._task, talk.conversation.interrupt)

    @property
    def session_id(self) -> str:
        """The id by which it can be resumed; blank before it is open."""
        return "" if self._talk is None else self._talk.session_id

    def _context_of_opening(self) -> Context:
        return copy_context() if self._context is None else self._context.copy()

    async def _answer(self, asked: Callable[[], Awaitable[AskedPrompt]], work: RunWork[Answer[Any]]) -> Answer[Any]:
        """Have a prompt answered, and first checked, once it is its turn."""
        if self._talk is None or self._task is None:
            raise UsageError("the session is not open: use `async with Session(...)`, or await open()")
        self._check_loop(self._task)
        with CancelScope() as waiting:
            work.serve(waiting.cancel)
            await self._turn.acquire()
        if waiting.cancelled_caught:
            return self._talk.unsaid(await asked())
        try:
            if self._closing.is_set() or self._task.done():
                raise UsageError(f"the session is closed: go on with resume={self.session_id!r}")
            return await self._talk.answer(await asked(), work)
        finally:
            self._turn.release()

    def _check_loop(self, task: asyncio.Task[None]) -> None:
        if task.get_loop() is not running_loop():
            raise UsageError("the session is open in another event loop: use it there")

    async def _hold(self) -> None:
        try:
            engine = await _engine()
            async with engine.talking(self._host, self._workdir, self._given, self._hearer) as self._talk:
                self._opened.set()
                await self._closing.wait()
        except BaseException as error:
            self._error = raised(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._opened.set()


class _Query(Session):
    """The session of one prompt."""

    _takes = QueryOptions, "query()"

    async def answer(self, prompt: str, output: Any, work: RunWork[Answer[Any]]) -> Answer[Any]:
        """Have it answered, and all that is wrong with it told before anything is written."""
        if not prompt.strip() and not self._given.get("images") and "resume" not in self._given:
            raise UsageError("prompt: there is nothing in it: say what is wanted")
        asked = asyncio.ensure_future(_prepared(prompt, output, cast("PromptOptions", self._given)))
        await asked
        self._hearer = work
        async with self:
            return await self._answer(lambda: asked, work)


@overload
def query(prompt: str, *, output: type[T], **options: Unpack[QueryOptions]) -> Run[Answer[T]]: ...
@overload
def query(prompt: str, *, output: None = None, **options: Unpack[QueryOptions]) -> Run[Answer[None]]: ...
@overload
def query(prompt: str, *, output: object, **options: Unpack[QueryOptions]) -> Run[Answer[Any]]: ...


def query(prompt: str, *, output: Any = None, **options: Unpack[QueryOptions]) -> Run[Answer[Any]]:
    """Answer one prompt in a session of its own; see ``SessionOptions`` and ``PromptOptions`` for what may be given.

    ``output`` is a type or a JSON Schema: the agent ends with a value of it, which is the answer's ``output``.

    Raises:
        UsageError: a folder is missing. What else is wrong is told by the await, before anything is written.
    """
    check(prompt=prompt, output=output)
    return Run(RunWork(partial(_Query(**cast("Any", options)).answer, prompt, output)))


def run_plan(plan: Plan | Mapping[str, Any] | StrPath, **options: Unpack[PlanOptions]) -> Run[PlanResult]:
    """Run a plan: one that was built here, a mapping, or the path of a file.

    Raises:
        UsageError: an argument is wrong.
    """
    return _run("carried_out", _given(plan), checked(options, PlanOptions, "run_plan()"))


def resume_plan(plan_id: str, **options: Unpack[PlanOptions]) -> Run[PlanResult]:
    """Go on with a plan that was begun, by its id or the beginning of it; no completed step is repeated.

    Raises:
        UsageError: an argument is wrong.
    """
    check(plan_id=plan_id)
    if options.get("only"):
        raise UsageError("only=: a plan goes on with the steps it was begun with: leave it out")
    return _run("carried_out", plan_id, checked(options, PlanOptions, "resume_plan()"))


def make_plan(goal: str, **options: Unpack[MakePlanOptions]) -> Run[Plan]:
    """Have a model write a plan for a goal; nothing is run. Its commands wait for ``accept_commands=True``.

    Raises:
        UsageError: an argument is wrong.
    """
    check(goal=goal)
    return _run("written", goal, checked(options, MakePlanOptions, "make_plan()"))


def _run(done_by: str, subject: bytes | Path | str, options: PlanOptions | MakePlanOptions) -> Run[Any]:
    """Have a function of ``plan_work`` do it, which brings the engine: a program that only may want one starts fast."""
    host, options["workdir"] = surroundings(options)

    async def do(work: RunWork[Any]) -> Any:
        engine = await to_thread.run_sync(import_module, "vibe.sdk.plan_work")
        return await getattr(engine, done_by)(subject, options, host, work)

    return Run(RunWork(do))


def _given(plan: Plan | Mapping[str, Any] | StrPath) -> bytes | Path:
    """Return a plan's document as it is now, or its file."""
    dump = getattr(plan, "model_dump_json", None)  # asked so, what plans are made of need not be loaded for it
    if dump is not None:
        return dump(exclude_unset=True).encode()
    check(plan=plan)
    return document("plan", plan) if isinstance(plan, Mapping) else Path(cast("StrPath", plan)).absolute()
