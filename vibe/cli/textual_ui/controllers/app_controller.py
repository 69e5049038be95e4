"""AppController: decides what a submitted line does, and what the keys that stop things stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.cli.textual_ui.state_store import QueuedLine, ScreenPhase, UIStateStore
from vibe.front.slash.command import user_command
from vibe.front.slash.table import of_screen

COMMAND_MARK = "/"


class ChatAbout(Struct, frozen=True, kw_only=True):
    """The facts of a chat that the screen needs.

    ``session_id`` is for resuming it later, and blank if the chat belongs to another process. ``folder`` holds the
    files that ``@`` can name. ``saved`` are the messages the chat was resumed with. ``commands`` are its slash
    commands: name, usage and purpose.
    """

    session_id: str
    folder: Path
    saved: SavedPart
    commands: Sequence[tuple[str, str, str]]

    @property
    def goes_on(self) -> str:
        """Words that name the command to go on with the chat, or with a plan that was begun in it."""
        return "vibe -c goes on" if self.saved.messages else "start vibe to go on"


class Chat(Protocol):
    """A conversation as the screen uses it, be it held by the engine in this process or in another."""

    @property
    def about(self) -> ChatAbout:
        """The chat as it is now."""
        ...

    @property
    def is_busy(self) -> bool:
        """True while a prompt is being answered."""
        ...

    def send(self, prompt: str, images: tuple[Path, ...] = ()) -> None:
        """Have a prompt answered, with the images in these files; the stage is told when that is done."""

    def steer(self, text: str) -> bool:
        """Tell the agent at work something; return False if it is not at work."""
        ...

    def interrupt(self) -> bool:
        """Stop the agent at once; return False if it is not at work."""
        ...

    def send_back(self) -> None:
        """Move the command that the agent waits for to the background."""

    def shell(self, command: str, *, tell_model: bool) -> None:
        """Run a shell command of the person; the stage is told when it has ended."""

    def command(self, line: str) -> None:
        """Carry out a slash command; if that fails, show why and put the line back into the prompt."""

    def next_mode(self) -> None:
        """Switch to the next mode, from the next prompt on."""

    def tell_agent(self, agent_id: str, text: str) -> None:
        """Tell one of the agents at work something, be it a step's or the person's own."""

    def leave(self) -> None:
        """Leave the chat."""


class AppController:
    """Decides what becomes of a line: a prompt to send or queue, a slash command, or a shell command.

    Lines submitted before the engine is loaded, or while the agent works, are queued and sent one at a time. ``leave``
    quits the app while there is no conversation yet.
    """

    def __init__(self, store: UIStateStore, leave: Callable[[], object]) -> None:
        self._store = store
        self._leave = leave
        self.chat: Chat | None = None

    def switch(self) -> None:
        """Leave the chat, so that another can take the screen."""
        if self.chat is not None:
            self.chat.leave()
            self.chat = None
            self._store.change(phase=ScreenPhase.STARTING)

    @property
    def _queued(self) -> tuple[QueuedLine, ...]:
        return self._store.screen.queued

    def commands(self) -> Sequence[tuple[str, str, str]]:
        """Return the slash commands as in ``ChatAbout``: the chat's, or the screen's before there is a chat."""
        return of_screen() if self.chat is None else self.chat.about.commands

    def opened(self, chat: Chat, prompt: str) -> None:
        """Start a conversation: send its prompt, if any, then the lines queued meanwhile."""
        self.chat = chat
        queued = (QueuedLine(prompt), *self._queued) if prompt else self._queued
        self._store.change(phase=ScreenPhase.READY, queued=queued)
        self.send_next()

    def submit(self, line: str, images: tuple[Path, ...] = (), *, is_line: bool = True) -> None:
        """Take a line and the image files that go with it; without ``is_line`` it is a prompt, never a command."""
        sent = QueuedLine(line.strip(), images, is_line=is_line)
        if not sent.text:
            return
        if _is_command(sent) and self.chat is not None:  # each command decides for itself whether it must wait
            self._do(sent)
        else:
            self._store.change(queued=(*self._queued, sent))
            self.send_next()

    def send_next(self) -> None:
        """If no prompt is being answered, send the next queued one, and carry out the commands before it."""
        chat = self.chat
        while chat is not None and not chat.is_busy and self._queued and self._store.screen.phase is ScreenPhase.READY:
            line, *rest = self._queued
            self._store.change(queued=tuple(rest))
            self._do(line)
            if not _is_command(line):
                return  # the stage calls this again when it has ended

    def recall(self) -> str:
        """Take back the prompt that was queued last; return a blank string if none is queued."""
        queued = self._queued
        if not queued:
            return ""
        self._store.change(queued=queued[:-1])
        return queued[-1].text

    def steer(self, line: str, images: tuple[Path, ...] = ()) -> None:
        """Tell the agent at work a line; if it is not at work, or the line is more than text, ``submit`` it."""
        if not _is_mere_text(QueuedLine(line, images)) or self.chat is None or not self.chat.steer(line.strip()):
            self.submit(line, images)

    def steer_queued(self) -> None:
        """Tell the agent at work the queued prompts; those with images, commands and shell lines stay queued."""
        steered = [line for line in self._queued if _is_mere_text(line)]
        if steered and self.chat is not None and self.chat.steer("\n\n".join(line.text for line in steered)):
            self._store.change(queued=tuple(line for line in self._queued if line not in steered))

    def interrupt(self) -> bool:
        """Stop what is at work; return False if nothing is."""
        return self.chat is not None and self.chat.interrupt()

    def leave(self) -> None:
        """End the conversation and the app."""
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
