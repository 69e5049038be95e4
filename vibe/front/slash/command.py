"""SlashCommand: a command typed in a conversation; Talk: the parts of a front end that commands need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vibe.app.conversation.conversation import Conversation
    from vibe.app.conversation.opening import Opening, Seat
    from vibe.app.conversation.runtime import Runtime
    from vibe.front.picker import Picker
    from vibe.front.slash.plan_talk import PlanTalk


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command as it was typed: its name, without the slash, and the text after it."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class UserCommand:
    """A command line for the person's own shell."""

    command: str
    tells_model: bool


def user_command(line: str) -> UserCommand | None:
    """Return what a line says to the shell, behind ``!``, or ``!!`` if the model is not told; None: it is another."""
    if not line.startswith("!"):
        return None
    command = line.removeprefix("!")
    return UserCommand(command.removeprefix("!").strip(), tells_model=not command.startswith("!"))


class Talk(Protocol):
    """A front end as commands see it: one person's conversation, and the ways to show them something.

    A command that can't be carried out raises ``VibeError`` or ``IpcError``: the front end says so, and keeps the line.
    """

    keys: Sequence[str]
    """Lines on what can be typed besides commands."""
    runtime: Runtime
    """The runtime of this process."""
    opening: Opening
    """The opening of the first conversation."""
    seat: Seat
    """The person, as conversations know them."""
    plans: PlanTalk
    """The plan of the conversation."""

    @property
    def asked_at(self) -> Mapping[int, float]:
        """The times of prompts in unix seconds, as far as they are known, by the index of their message."""
        ...

    @property
    def conversation(self) -> Conversation:
        """The conversation that is held now."""
        ...

    @property
    def commands(self) -> Mapping[str, SlashCommand]:
        """All commands by name, in the order of the help."""
        ...

    def say(self, text: str) -> None:
        """Show lines of ours."""

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Show what changed in files."""

    def begin(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Do something beside the conversation; what goes wrong with it is shown."""

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and go on with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened: this one goes on.
        """

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt, now or once it has time.

        Raises:
            BusyError: it is at work, and prompts do not wait here.
        """

    def suggest(self, prompt: str) -> None:
        """Offer a prompt to be changed and sent, where there is a line to put it in."""

    async def refresh(self) -> None:
        """Offer the commands that the conversation brings as it is now, and say what is wrong with them."""

    def copy(self, text: str) -> None:
        """Put text on the person's clipboard.

        Raises:
            UsageError: that can't be done here.
        """

    async def edit(self, text: str, name: str) -> str:
        """Have the person change a text in their editor, as a file of that name, and return it.

        Raises:
            EditorError: there is no editor, or it failed.
        """
        ...

    def leave(self) -> None:
        """Save the conversation and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command: ``handler`` carries it out, ``picker`` makes a list of what may follow it (None: there is none).

    Front ends that can't show one carry the command out as it is.
    """

    name: str
    about: str
    handler: Callable[[Talk, Typed], Awaitable[None]]
    usage: str = ""
    """The arguments it takes."""
    picker: Callable[[Talk], Awaitable[Picker | None]] | None = None

    @property
    def line(self) -> str:
        """The command as it is typed, with its arguments."""
        return f"/{self.name} {self.usage}".rstrip()
