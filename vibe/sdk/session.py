"""Sessions and queries, in which an agent answers the prompts of a program, and the functions that run plans."""

from __future__ import annotations

import asyncio  # noqa: TID251  a session is held by its own task, which must not be a child of the caller's
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
from vibe.sdk.run import Run, RunWork, call_in_loop, check_outside, running_loop, wait_for_end
from vibe.system.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.model import Plan
    from vibe.sdk.conversing import AskedPrompt, OpenTalk

T = TypeVar("T")


async def _engine() -> Any:
    """Import the engine on the first run, so that a program that may never need it starts fast."""
    return await to_thread.run_sync(import_module, "vibe.sdk.conversing")


async def _check_prompt(prompt: str, output: Any, options: PromptOptions) -> AskedPrompt:
    return await to_thread.run_sync((await _engine()).check_prompt, prompt, output, options)


class Session:
    """A conversation with an agent over many prompts. ``async with`` opens and closes it.

    ``SessionOptions`` lists the options. Callbacks run with the context variables of the moment it was opened. The
    session is held by a task of its own, so it may be opened, used and closed in different tasks.

    Raises:
        UsageError: a folder is missing. All other problems are raised when the session is opened, before anything is
            written.
    """

    _takes: Any = SessionOptions, "Session()"
    _hearer: RunWork[Any] | None = None
    """Receives the session's events from its opening on."""

    def __init__(self, **options: Unpack[SessionOptions]) -> None:
        self._given = checked(options, *self._takes)
        self._host, self._workdir = surroundings(self._given)
        self._context: Context | None = None
        self._task: asyncio.Task[None] | None = None
        self._opened, self._closing, self._turn = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._error: BaseException | None = None
        self._at_work: RunWork[Any] | None = None
        self._talk: OpenTalk | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the session.

        Raises:
            UsageError: an option, the session to resume or the configuration is wrong, or it was opened before.
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
        """Interrupt the prompt at work, save the session and end it, even if the caller is cancelled.

        A second call does nothing.

        Raises:
            UsageError: a tool or callback of the session calls it.
            EnvironmentFailure: its end could not be published.
        """
        if self._task is None or self._task.done():
            return
        check_outside(self._at_work)
        self._check_loop(self._task)
        self._closing.set()
        await wait_for_end(self._task)
        if self._error is not None and self._talk is not None:
            raise self._error

    @overload
    def send(self, prompt: str, *, output: type[T], **options: Unpack[PromptOptions]) -> Run[Answer[T]]: ...
    @overload
    def send(self, prompt: str, *, output: None = None, **options: Unpack[PromptOptions]) -> Run[Answer[None]]: ...
    @overload
    def send(self, prompt: str, *, output: object, **options: Unpack[PromptOptions]) -> Run[Answer[Any]]: ...

    def send(self, prompt: str, *, output: Any = None, **options: Unpack[PromptOptions]) -> Run[Answer[Any]]:
        """Have a prompt answered. The prompts of a session are answered one at a time.

        See ``PromptOptions`` for the options and ``query`` for ``output``.
        """
        check(prompt=prompt, output=output)
        prepare = partial(_check_prompt, prompt, output, checked(options, PromptOptions, "send()"))
        work = RunWork(partial(self._answer, prepare), self._context_of_opening)
        work.blocker = lambda: self._at_work
        return Run(work)

    def steer(self, text: str) -> bool:
        """Say something to the agent at work, to be read before its next model call; False if none is at work."""
        check(text=text)
        talk = self._talk
        return talk is not None and call_in_loop(self._task, talk.conversation.steer, text)

    def interrupt(self) -> None:
        """Stop the prompt at work. What was said so far stays in the conversation."""
        talk = self._talk
        if talk is not None:
            call_in_loop(self._task, talk.conversation.interrupt)

    @property
    def session_id(self) -> str:
        """The id by which the session can be resumed; empty until it is open."""
        talk = self._talk
        return "" if talk is None else talk.conversation.session_id

    def _context_of_opening(self) -> Context:
        return copy_context() if self._context is None else self._context.copy()

    async def _answer(self, prepare: Callable[[], Awaitable[AskedPrompt]], work: RunWork[Answer[Any]]) -> Answer[Any]:
        """Wait for the prompt's turn, check it, and have it answered."""
        if self._talk is None or self._task is None:
            raise UsageError("the session is not open: use `async with Session(...)`, or await open()")
        self._check_loop(self._task)
        with CancelScope() as waiting:
            work.serve(waiting.cancel)
            await self._turn.acquire()
        if waiting.cancelled_caught:
            return self._talk.end(await prepare())
        try:
            if self._closing.is_set() or self._task.done():
                raise UsageError(f"the session is closed: go on with resume={self.session_id!r}")
            self._at_work = work
            return await self._talk.answer(await prepare(), work)
        finally:
            self._at_work = None
            self._turn.release()

    def _check_loop(self, task: asyncio.Task[None]) -> None:
        if task.get_loop() is not running_loop():
            raise UsageError("the session is open in another event loop: use it there")

    async def _hold(self) -> None:
        try:
            engine = await _engine()
            async with engine.open_talk(self._host, self._workdir, self._given, self._hearer) as self._talk:
                self._opened.set()
                await self._closing.wait()
        except BaseException as error:
            self._error = raised(error) if self._hearer is None else error  # the run of a query does it: once is enough
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._opened.set()


class _Query(Session):
    """The session of a single prompt."""

    _takes = QueryOptions, "query()"

    async def answer(self, prompt: str, output: Any, work: RunWork[Answer[Any]]) -> Answer[Any]:
        """Have the prompt answered. Anything wrong with it is raised before anything is written."""
        if not prompt.strip() and not self._given.get("images") and "resume" not in self._given:
            raise UsageError("prompt: there is nothing in it: say what is wanted")
        asked = asyncio.ensure_future(_check_prompt(prompt, output, cast("PromptOptions", self._given)))
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
    """Have one prompt answered in a session of its own.

    See ``SessionOptions`` and ``PromptOptions`` for the options. ``output`` is a type or a JSON Schema. The agent ends
    with a value of it, which becomes ``Answer.output``.

    Raises:
        UsageError: a folder is missing. All other problems are raised by the await, before anything is written.
    """
    check(prompt=prompt, output=output)
    return Run(RunWork(partial(_Query(**cast("Any", options)).answer, prompt, output)))


def run_plan(plan: Plan | Mapping[str, Any] | StrPath, **options: Unpack[PlanOptions]) -> Run[PlanResult]:
    """Run a plan: one built in Python, a mapping, or the path of a plan file.

    Raises:
        UsageError: an argument is wrong.
    """
    return _run("run_plan_work", _document_of(plan), checked(options, PlanOptions, "run_plan()"))


def resume_plan(plan_id: str, **options: Unpack[PlanOptions]) -> Run[PlanResult]:
    """Resume a plan by its id, or the beginning of its id. No completed step is repeated.

    Raises:
        UsageError: an argument is wrong.
    """
    check(plan_id=plan_id)
    if options.get("only"):
        raise UsageError("only=: a plan goes on with the steps it was begun with: leave it out")
    return _run("run_plan_work", plan_id, checked(options, PlanOptions, "resume_plan()"))


def make_plan(goal: str, **options: Unpack[MakePlanOptions]) -> Run[Plan]:
    """Have a model write a plan for a goal; nothing is run.

    Its commands only run once ``run_plan`` or ``resume_plan`` is given ``accept_commands=True``.

    Raises:
        UsageError: an argument is wrong.
    """
    check(goal=goal)
    return _run("write_plan_work", goal, checked(options, MakePlanOptions, "make_plan()"))


def _run(function_name: str, subject: bytes | Path | str, options: PlanOptions | MakePlanOptions) -> Run[Any]:
    """Return a run of a function in ``plan_work``.

    That module imports the engine when the run starts, so a program that may never need it starts fast.
    """
    host, options["workdir"] = surroundings(options)

    async def do(work: RunWork[Any]) -> Any:
        engine = await to_thread.run_sync(import_module, "vibe.sdk.plan_work")
        return await getattr(engine, function_name)(subject, options, host, work)

    return Run(RunWork(do))


def _document_of(plan: Plan | Mapping[str, Any] | StrPath) -> bytes | Path:
    """Return a plan's document as it is now, or the path of its file."""
    dump = getattr(plan, "model_dump_json", None)  # isinstance() would need the model of plans to be imported
    if dump is not None:
        return dump(exclude_unset=True).encode()
    check(plan=plan)
    return document("plan", plan) if isinstance(plan, Mapping) else Path(cast("StrPath", plan)).absolute()
