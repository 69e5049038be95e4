"""RemoteChat: shows a run of another process on this screen, and sends it what the person types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anyio import Event, create_task_group, to_thread
from anyio.abc import TaskGroup
from msgspec import structs

from ipc.commands import Act, Cancel, GivePrompt, Interrupt, Pause, RunCommand, Steer, StepAction
from ipc.errors import IpcError
from ipc.events import Event as BusEvent, PlanCompletedEvent, PlanPausedEvent
from ipc.registry import Entry, Registry
from ipc.subscriber import Subscription, subscribe
from vibe.app.engine.host import Host
from vibe.app.watch.commands import send_to
from vibe.cli.textual_ui.chat_screen import ChatScreen
from vibe.cli.textual_ui.controllers.app_controller import ChatAbout
from vibe.cli.textual_ui.overview.summaries import next_lines
from vibe.cli.textual_ui.panels.request_queue import RequestReply
from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.view.agent_view import RequestView
from vibe.view.view import lose

BY = "attached screen"
COMMANDS = (
    ("pause", "", "pause the plan"),
    ("cancel", "[STEP]", "cancel the plan, or one step"),
    ("retry", "STEP [WORDS]", "run a step again, and tell its agent something"),
    ("skip", "STEP", "skip a step"),
    ("steer", "STEP TEXT", "tell a step's agent something"),
    ("exit", "", "leave; the run continues"),
    ("help", "", "list these commands"),
)
"""The slash commands that can be sent to a run elsewhere: name, usage and purpose.

All others belong to the process that holds the conversation.
"""
USAGE = {name: f"/{f'{name} {usage}'.rstrip()}: {about}" for name, usage, about in COMMANDS}


class RemoteChat:
    """A run of another process as the screen's ``Chat``; ``entry`` says where the run listens."""

    def __init__(self, entry: Entry, subscription: Subscription, stage: ChatScreen) -> None:
        self._entry = entry
        self._subscription = subscription
        self._stage = stage
        self._asked: set[str] = set()
        self._tasks: TaskGroup
        self._leaving = Event()

    async def hold(self) -> None:
        """Show the run until ``leave``. The run goes on then; if it ends earlier, say so and keep the screen open."""
        async with create_task_group() as self._tasks:
            self._stage.opened(self, "")
            self._stage.say(f"run {self._entry.source} of process {self._entry.pid}: /help lists what you can send it")
            self._tasks.start_soon(self._follow)
            await self._leaving.wait()
            self._tasks.cancel_scope.cancel()

    # --- as a chat

    @property
    def about(self) -> ChatAbout:
        """The run as a chat without saved messages: all that was said in it comes as events."""
        return ChatAbout(session_id="", folder=Path(self._entry.info.cwd), saved=SavedPart(()), commands=COMMANDS)

    @property
    def is_busy(self) -> bool:
        """Always False: prompts are sent at once and queue at the run."""
        return False

    def send(self, prompt: str, images: tuple[Path, ...] = ()) -> None:
        """Give the run's conversation a prompt; images can't be sent along."""
        if images:
            self._stage.give_back(prompt, "images can't be sent to a run of another process: leave them out")
        else:
            self._tasks.start_soon(self._send, GivePrompt(text=prompt, by=BY), prompt)

    def steer(self, text: str) -> bool:
        """Tell the run's agent at work something."""
        self._tasks.start_soon(self._send, Steer(text=text, by=BY), text)
        return True

    def interrupt(self) -> bool:
        """Stop the run's main agent; return False if there is none at work."""
        main = self._stage.store.view.main
        if main is None or main.prompt is None:
            return False
        self._tasks.start_soon(self._send, Interrupt(by=BY))
        return True

    def send_back(self) -> None:
        """Say that this can't be done from here."""
        self._stage.say("send commands to the background where the run was started")

    def shell(self, command: str, *, tell_model: bool) -> None:
        """Give the command back: an attached run takes none."""
        line = f"{'!' if tell_model else '!!'}{command}"
        self._stage.give_back(line, "a run of another process takes no shell commands: use another terminal")

    def next_mode(self) -> None:
        """Say that this can't be done from here."""
        self._stage.say("change the mode where the run was started")

    def tell_agent(self, agent_id: str, text: str) -> None:
        """Tell one of the run's agents at work something."""
        self._tasks.start_soon(self._send, Steer(text=text, agent_id=agent_id, by=BY), text)

    def command(self, line: str) -> None:
        """Carry out one of ``COMMANDS``; give back any other line."""
        name, _, rest = line.removeprefix("/").partition(" ")
        command = self._parsed(name, rest.strip())
        if name == "exit":
            self.leave()
        elif name == "help":
            self._stage.say("\n".join(USAGE.values()))
        elif command is not None:
            self._tasks.start_soon(self._send, command, line)
        else:
            self._stage.give_back(line, USAGE.get(name) or f"/{name} can't be sent to an attached run: see /help")

    def leave(self) -> None:
        """Detach from the run."""
        self._leaving.set()

    # --- what is sent and what comes

    def _parsed(self, name: str, rest: str) -> RunCommand | None:
        """Return what a slash command sends to the run, or None if it is unknown or incomplete."""
        step_id, _, text = rest.partition(" ")
        match name:
            case "pause":
                return Pause(by=BY)
            case "cancel" if not rest:
                return Cancel(by=BY)
            case "cancel" | "retry" | "skip" if step_id and (name == "retry" or not text):
                return Act(step_id=step_id, action=StepAction(name), message=text.strip(), by=BY)
            case "steer" if text.strip():
                return Steer(text=text.strip(), step_id=step_id, by=BY)
            case _:
                return None

    async def _send(self, command: RunCommand, line: str = "") -> None:
        """Send a command and say what came of it; if it was not taken, give back the line that it was typed as."""
        outcome = await send_to(self._entry, command)
        if line and outcome.state in {"refused", "ended"}:
            self._stage.give_back(line, outcome.message)
        else:
            self._stage.say(outcome.message)

    async def _follow(self) -> None:
        store, bottom = self._stage.store, self._stage.bottom
        try:
            async with self._subscription as records:
                async for record in records:
                    self._show(record.event)
        except IpcError as error:
            self._stage.say(f"its events can no longer be followed: {error}")
        if self._subscription.ended == "died":
            lose(store.view, self._entry.source)
        self._update_requests({})
        bottom.is_over = True
        bottom.present(store.view, frozenset({("plans",)}))
        self._stage.say(f"run {self._entry.source} has ended ({self._subscription.ended or 'gone'}); /exit leaves")

    def _show(self, event: BusEvent | None) -> None:
        """Show one event; None stands for an event of a newer version, and is passed over."""
        if event is not None:
            store = self._stage.store
            view = store.view
            store.publish(event)
            self._update_requests(view.requests)
            self._stage.presenter.tell_answers(event, own=BY)
            has_ended = isinstance(event, PlanCompletedEvent | PlanPausedEvent)
            if has_ended and (lines := next_lines(view.plans[event.plan_id or ""])):
                self._stage.say("\n".join(lines))

    def _update_requests(self, requests: Mapping[str, RequestView]) -> None:
        """Ask the person the run's new requests, and withdraw those that are no longer open."""
        queue = self._stage.requests
        for gone in self._asked - requests.keys():
            queue.withdraw(gone)
        for new in requests.keys() - self._asked:
            queue.add_remote(requests[new], self._send_answer)
        self._asked = set(requests)

    async def _send_answer(self, reply: RequestReply) -> str:
        """Send the person's answer; return why it was refused, or a blank string if it was taken."""
        outcome = await send_to(self._entry, structs.replace(reply, by=BY))
        return "" if outcome.state == "done" else outcome.message


async def hold_attached(host: Host, source: str, token: str, stage: ChatScreen) -> None:
    """Show a run of another process until the person leaves.

    ``source`` is the run's id or the beginning of it. ``token`` is the run's token, if this home does not know it.

    Raises:
        IpcError: there is no such run.
    """
    entry = await to_thread.run_sync(Registry(host.home, host.runtime_dir).running_as, source)
    subscription = subscribe(entry.source, home=host.home, after=0, runtime_dir=host.runtime_dir, token=token)
    await RemoteChat(entry, subscription, stage).hold()
