"""AppController: the meaning of a line that was sent, and of the keys that stop things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.cli.textual_ui.state_store import QueuedLine, ScreenPhase, UIStateStore
from vibe.front.slash.command import user_command
from vibe.front.slash.table import of_screen

if TYPE_CHECKING:
    from pathlib import Path


COMMAND_MARK = "/"


class ChatAbout(Struct, frozen=True, kw_only=True):
    """A chat, as its screen shows it. ``session_id`` is for a later resume (blank: it is not this screen's).

    ``folder`` has the files that can be named with ``@``, ``saved`` are the messages it was resumed with, and
    ``commands`` its slash commands: name, usage and purpose.
    """

    session_id: str
    folder: Path
    saved: SavedPart
    commands: Sequence[tuple[str, str, str]]

    @property
    def goes_on(self) -> str:
        """The command that goes on with it, or with a plan that was begun in it."""
        return "vibe -c goes on" if self.saved.messages else "vibe goes on"


class Chat(Protocol):
    """A conversation as the screen has it: held by the engine in this process, or in another."""

    @property
    def about(self) -> ChatAbout:
        """The chat as it is now."""
        ...

    @property
    def is_busy(self) -> bool:
        """True while a prompt is being answered."""
        ...

    def send(self, prompt: str, images: tuple[Path, ...] = ()) -> None:
        """Have a prompt answered, with the images in these files; the stage hears when it has been."""

    def steer(self, text: str) -> bool:
        """Say something to the agent at work; False: it is not at work."""
        ...

    def interrupt(self) -> bool:
        """Stop the agent at once; False: it is not at work."""
        ...

    def send_back(self) -> None:
        """Have the command that the agent waits for run on in the background."""

    def shell(self, command: str, *, tell_model: bool) -> None:
        """Run the person's own command line; the stage hears when it has ended."""

    def command(self, line: str) -> None:
        """Carry a slash command out; what goes wrong is said, and the line given back."""

    def next_mode(self) -> None:
        """Go on in the next mode, from the next prompt on."""

    def tell_agent(self, agent_id: str, text: str) -> None:
        """Say something to one of the agents at work, a step's or a person's."""

    def leave(self) -> None:
        """End it."""


class AppController:
    """Decides what becomes of a line: sent, queued, a slash command, or one of the person's own shell.

    What is sent before the engine is there, or while the agent works, is queued, one prompt after the other; ``leave``
    ends the screen where there is no conversation yet.
    """

    def __init__(self, store: UIStateStore, leave: Callable[[], object]) -> None:
        self._store = store
        self._leave = leave
        self.chat: Chat | None = None

    def switch(self) -> None:
        """Leave the chat for another, which holds the screen from then on."""
        if self.chat is not None:
            self.chat.leave()
            self.chat = None
            self._store.change(phase=ScreenPhase.STARTING)

    @property
    def _queued(self) -> tuple[QueuedLine, ...]:
        return self._store.screen.queued

    def commands(self) -> Sequence[tuple[str, str, str]]:
        """Return the slash commands, as ``ChatAbout`` has them: those of the chat, once there is one."""
        return of_screen() if self.chat is None else self.chat.about.commands

    def opened(self, chat: Chat, prompt: str) -> None:
        """Go on with a conversation: first its prompt, then what was typed meanwhile."""
        self.chat = chat
        queued = (QueuedLine(prompt), *self._queued) if prompt else self._queued
        self._store.change(phase=ScreenPhase.READY, queued=queued)
        self.send_next()

    def submit(self, line: str, images: tuple[Path, ...] = (), *, is_line: bool = True) -> None:
        """Take a line that the person sent, and the image files that go with it; else, a prompt."""
        sent = QueuedLine(line.strip(), images, is_line=is_line)
        if not sent.text:
            return
        if _is_command(sent) and self.chat is not None:  # it says itself whether it must wait
            self._do(sent)
        else:
            self._store.change(queued=(*self._queued, sent))
            self.send_next()

    def send_next(self) -> None:
        """Send the queued prompt that is next, if nothing is at work, and the commands before it."""
        chat = self.chat
        while chat is not None and not chat.is_busy and self._queued and self._store.screen.phase is ScreenPhase.READY:
            line, *rest = self._queued
            self._store.change(queued=tuple(rest))
            self._do(line)
            if not _is_command(line):
                return  # its end is told

    def recall(self) -> str:
        """Take back the prompt that was queued last; blank: none is."""
        queued = self._queued
        if not queued:
            return ""
        self._store.change(queued=queued[:-1])
        return queued[-1].text

    def steer(self, line: str, images: tuple[Path, ...] = ()) -> None:
        """Say a line to the agent at work; as ``submit`` where it is not at work, and for what is no mere text."""
        if not _is_mere_text(QueuedLine(line, images)) or self.chat is None or not self.chat.steer(line.strip()):
            self.submit(line, images)

    def steer_queued(self) -> None:
        """Say the prompts that wait to the agent at work; those with images, commands and shell lines wait on."""
        told = [line for line in self._queued if _is_mere_text(line)]
        if told and self.chat is not None and self.chat.steer("\n\n".join(line.text for line in told)):
            self._store.change(queued=tuple(line for line in self._queued if line not in told))

    def interrupt(self) -> bool:
        """Stop what is at work; False: nothing is."""
        return self.chat is not None and self.chat.interrupt()

    def leave(self) -> None:
        """End the conversation and the screen."""
        self._store.change(phase=ScreenPhase.LEAVING)
        if self.chat is None:
            self._leave()
        else:
            self.chat.leave()

    def _do(self, line: QueuedLine) -> None:
        chat, text = self.chat, line.text
        if chat is None:
            return
        shell = user_command(text) if line.is_line else None
        if shell is not None:
            chat.shell(shell.command, tell_model=shell.tells_model)
        elif _is_command(line):
            chat.command(text)
        else:
            chat.send(text, line.images)


def _is_command(line: QueuedLine) -> bool:
    return line.is_line and line.text.startswith(COMMAND_MARK)


def _is_mere_text(line: QueuedLine) -> bool:
    return not line.images and not line.text.startswith(COMMAND_MARK) and user_command(line.text) is None
