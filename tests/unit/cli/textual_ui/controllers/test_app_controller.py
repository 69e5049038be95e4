"""The effects of a typed line, and of the keys that stop things."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vibe.cli.textual_ui.controllers.app_controller import AppController, ChatAbout
from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.cli.textual_ui.state_store import QueuedLine, ScreenPhase, UIStateStore


@dataclass
class ScriptedChat:
    """Records what it is asked for. It is busy from a prompt until ``rest``."""

    done: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    is_busy: bool = False
    about: ChatAbout = field(
        default_factory=lambda: ChatAbout(session_id="0a1b2c3d", folder=Path("/"), saved=SavedPart(()), commands=())
    )

    def send(self, prompt: str, images: tuple[Path, ...] = ()) -> None:
        self.done.append(("send", " ".join([prompt, *map(str, images)])))
        self.is_busy = True

    def steer(self, text: str) -> bool:
        self.done.append(("steer", text))
        return self.is_busy

    def interrupt(self) -> bool:
        self.done.append(("interrupt", ""))
        return self.is_busy

    def send_back(self) -> None:
        self.done.append(("send back", ""))

    def shell(self, command: str, *, tell_model: bool) -> None:
        self.done.append(("told shell" if tell_model else "shell", command))
        self.is_busy = True

    def command(self, line: str) -> None:
        self.done.append(("command", line))

    def next_mode(self) -> None:
        self.done.append(("next agent", ""))

    def tell_agent(self, agent_id: str, text: str) -> None:
        self.done.append((agent_id, text))

    def leave(self) -> None:
        self.done.append(("leave", ""))


def controlled() -> tuple[AppController, ScriptedChat, UIStateStore, list[str]]:
    left: list[str] = []
    store = UIStateStore(lambda: None)
    return AppController(store, lambda: left.append("left")), ScriptedChat(), store, left


def test_what_is_typed_before_the_engine_is_there_is_sent_after_the_first_prompt() -> None:
    controller, chat, store, _ = controlled()
    controller.submit("typed early")
    controller.submit("/model")

    controller.opened(chat, "from the command line")
    assert store.screen.phase is ScreenPhase.READY
    assert chat.done == [("send", "from the command line")]
    chat.is_busy = False
    controller.send_next()

    assert chat.done[1:] == [("send", "typed early")]
    assert store.screen.queued == (QueuedLine("/model"),)


def test_prompts_wait_for_the_agent_and_commands_do_not() -> None:
    controller, chat, store, _ = controlled()
    controller.opened(chat, "")
    for line in ("one", "two", "  ", "/help", "!ls", "!!pwd"):
        controller.submit(line)
    assert chat.done == [("send", "one"), ("command", "/help")]
    assert store.screen.queued == (QueuedLine("two"), QueuedLine("!ls"), QueuedLine("!!pwd"))
    for _ in range(3):
        chat.is_busy = False
        controller.send_next()

    assert chat.done[2:] == [("send", "two"), ("told shell", "ls"), ("shell", "pwd")]


def test_a_command_typed_early_holds_up_nothing_behind_it() -> None:
    controller, chat, store, _ = controlled()
    for line in ("/theme nord", "one", "two"):
        controller.submit(line)
    controller.opened(chat, "")

    assert chat.done == [("command", "/theme nord"), ("send", "one")]
    assert store.screen.queued == (QueuedLine("two"),)


def test_images_go_with_their_prompt_however_long_it_waits() -> None:
    controller, chat, _, _ = controlled()
    controller.opened(chat, "")
    controller.submit("one")
    controller.submit("look", (Path("a.png"),))
    chat.is_busy = False
    controller.send_next()

    assert chat.done == [("send", "one"), ("send", "look a.png")]


def test_a_queued_prompt_is_taken_back_or_said_to_the_agent_at_once() -> None:
    controller, chat, store, _ = controlled()
    controller.opened(chat, "")
    for line in ("one", "two", "three"):
        controller.submit(line)
    assert controller.recall() == "three"
    controller.steer_queued()
    assert chat.done[-1] == ("steer", "two")
    assert store.screen.queued == ()
    assert controller.recall() == ""
    controller.steer_queued()
    controller.steer(" now ")
    assert chat.done[-2:] == [("steer", "two"), ("steer", "now")]

    chat.is_busy = False
    controller.steer("later")
    assert chat.done[-1] == ("send", "later")


def test_what_is_no_mere_text_is_not_said_to_the_agent_at_work() -> None:
    controller, chat, store, _ = controlled()
    controller.opened(chat, "")
    controller.submit("work")
    controller.submit("look", (Path("a.png"),))
    controller.submit("!ls")
    controller.submit("and this")
    controller.steer_queued()
    assert chat.done[-1] == ("steer", "and this")
    waits = (QueuedLine("look", (Path("a.png"),)), QueuedLine("!ls"))
    assert store.screen.queued == waits

    controller.steer("see", (Path("b.png"),))
    controller.steer("/cost")
    assert store.screen.queued == (*waits, QueuedLine("see", (Path("b.png"),)))
    assert chat.done[-1] == ("command", "/cost")


def test_leaving_ends_the_conversation_or_the_screen_that_has_none() -> None:
    controller, chat, store, left = controlled()
    assert controller.interrupt() is False
    controller.leave()
    assert left == ["left"]
    assert store.screen.phase is ScreenPhase.LEAVING

    controller.chat = chat
    controller.leave()
    controller.submit("never sent")
    assert chat.done == [("leave", "")]
