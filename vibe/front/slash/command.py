"""SlashCommand: a command typed in a conversation; Talk: what commands need from a front end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vibe.app.conversation.conversation import Conversation
    from vibe.app.conversation.opening import Opening, Seat
    from vibe.app.conversation.runtime import Runtime
    from vibe.front.picker import Picker
    from vibe.front.slash.plan_talk import PlanTalk


SIGNS = MappingProxyType({"note": "", "warning": "warning: ", "error": "vibe: "})
"""The prefix of each status of vibe's own messages where they are shown as mere text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedCommand:
    """A command as typed: its name without the slash, and the text after it."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class UserCommand:
    """A command line for the user's own shell."""

    command: str
    tells_model: bool


def user_command(line: str) -> UserCommand | None:
    """Return the shell command in a line that begins with ``!`` or ``!!``, or None for any other line.

    ``!!`` keeps the command and its output from the model.
    """
    if not line.startswith("!"):
        return None
    command = line.removeprefix("!")
    return UserCommand(command.removeprefix("!").strip(), tells_model=not command.startswith("!"))


class Talk(Protocol):
    """A front end as commands see it: one person's conversation, and the ways to show them something.

    A command that can't be carried out raises ``VibeError`` or ``IpcError``; the front end shows the error and keeps
    the line.
    """

    keys: Sequence[str]
    """Lines about what can be typed besides commands."""
    runtime: Runtime
    """This process's runtime."""
    opening: Opening
    """How the first conversation was opened."""
    seat: Seat
    """The person, as conversations know them."""
    plans: PlanTalk
    """The conversation's plan."""

    @property
    def asked_at(self) -> Mapping[int, float]:
        """The times of prompts that are known, in unix seconds, by the index of their message."""
        ...

    @property
    def conversation(self) -> Conversation:
        """The current conversation."""
        ...

    @property
    def commands(self) -> Mapping[str, SlashCommand]:
        """All commands by name, in the order in which help lists them."""
        ...

    def say(self, text: str, status: str = "note") -> None:
        """Show lines of text from vibe itself; ``status`` is one of ``SIGNS``."""

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Show what changed in files."""

    def begin(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Start work beside the conversation; an error in it is shown."""

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and continue with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened; this conversation continues.
        """

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt, now or as soon as it is free.

        Raises:
            BusyError: the agent is at work, and this front end doesn't queue prompts.
        """

    def suggest(self, prompt: str) -> None:
        """Put a prompt into the input line, if there is one, for the person to change and send."""

    async def refresh(self) -> None:
        """Offer the commands that the conversation now brings, and report what is wrong with them."""

    def copy(self, text: str) -> None:
        """Copy text to the person's clipboard.

        Raises:
            UsageError: this is not possible here.
        """

    async def edit(self, text: str, name: str) -> str:
        """Let the person change a text in their editor, as a file with this name, and return it.

        Raises:
            EnvironmentFailure: there is no editor, or it failed.
        """
        ...

    def leave(self) -> None:
        """Save the conversation and end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command. ``handler`` carries it out; ``picker``, if any, lists what may follow it.

    Front ends that can't show a picker carry the command out as typed.
    """

    name: str
    about: str
    handler: Callable[[Talk, TypedCommand], Awaitable[None]]
    usage: str = ""
    """The arguments it takes."""
    picker: Callable[[Talk], Awaitable[Picker | None]] | None = None

    @property
    def line(self) -> str:
        """The command as it is typed, with its arguments."""
        return f"/{self.name} {self.usage}".rstrip()
