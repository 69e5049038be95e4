"""ConversationControl: commands that reach a conversation from outside."""

from __future__ import annotations

from collections.abc import Callable

from ipc.commands import Cancel, GivePrompt, Interrupt, Reply, Steer
from ipc.control import refusal
from ipc.events import OWN_ANSWERS
from vibe.app.engine.command_router import CommandRouter
from vibe.app.engine.request_board import RequestBoard, serve_requests

NOT_ASKED = "no one answers in this run: what needs approval is denied; only a run at a terminal asks"


class ConversationControl:
    """Takes commands through its ``router``. A cancellation before the first prompt applies to that prompt.

    Without a ``board`` there are no requests to answer. ``prompted`` takes the prompts of others; without it they are
    refused.
    """

    def __init__(self, board: RequestBoard | None, prompted: Callable[[str], object] | None = None) -> None:
        self.cancelled = False
        self.router = CommandRouter("this run answers prompts").on(Cancel, self._cancel)
        self.router.on(Interrupt, self._on_interrupt).on(Steer, self._on_steer)
        serve_requests(self.router, board, NOT_ASKED)
        self._prompted: Callable[[str], object] = prompted or _no_one
        if prompted is not None:
            self.router.on(GivePrompt, self._on_prompt)
        self._interrupt: Callable[[], bool] = _no_one
        self._steer: Callable[[str, str], bool] = _no_one
        self._session_id: Callable[[], str] = str

    def serve(
        self, *, interrupt: Callable[[], bool], steer: Callable[[str, str], bool], session_id: Callable[[], str]
    ) -> None:
        """Serve a conversation from now on, through the given functions."""
        self._interrupt, self._steer, self._session_id = interrupt, steer, session_id

    async def _cancel(self, _: Cancel) -> Reply:
        self.cancelled = True
        self._interrupt()
        return Reply(ok=True, message="cancelling: the agent is stopped now")

    async def _on_interrupt(self, command: Interrupt) -> Reply:
        if command.session_id not in {"", self._session_id()}:
            return wrong_conversation(command.session_id)
        message = "interrupted: the conversation so far is kept" if self._interrupt() else "nothing is running"
        return Reply(ok=True, message=message)

    async def _on_steer(self, command: Steer) -> Reply:
        if problem := refusal_of(command, self._session_id()):
            return problem
        if self._steer(command.text, "" if command.by in OWN_ANSWERS else command.by):
            return Reply(ok=True, message="the agent reads it before its next turn")
        return refusal("refused", "the agent is not working: give it a prompt instead")

    async def _on_prompt(self, command: GivePrompt) -> Reply:
        if problem := refusal_of(command, self._session_id()):
            return problem
        self._prompted(command.text)
        return Reply(ok=True, message="prompt accepted")


def _no_one(*_: object) -> bool:
    return False


def route_messages(router: CommandRouter, session_id: str, tell: Callable[[str, str], bool]) -> None:
    """Pass what is said to a run that only plans to ``tell``, with who says it.

    ``tell`` returns whether anybody hears it.
    """

    async def hear(command: Steer | GivePrompt) -> Reply:
        if problem := refusal_of(command, session_id):
            return problem
        if tell(command.text, command.by):
            return Reply(ok=True, message="the planner reads it")
        return refusal("refused", "no plan is being written or waits for an answer here right now")

    router.on(Steer, hear).on(GivePrompt, hear)


def refusal_of(command: Steer | GivePrompt, session_id: str) -> Reply | None:
    """Return why something said can't be taken: it is for another conversation, or more than text. None if it can."""
    at = command.session_id if isinstance(command, GivePrompt) else command.step_id or command.agent_id
    if at not in {"", session_id}:
        return wrong_conversation(at)
    if isinstance(command, GivePrompt) and (command.images or command.output_schema is not None):
        return refusal("refused", "this conversation takes prompts of text alone: leave the rest out")
    return None


def wrong_conversation(name: str) -> Reply:
    """Return the reply to a command that is for another conversation."""
    return refusal("refused", f"this conversation is not {name[:40]!r}: leave the id out")
