"""A screen with only the input, which records what it sends."""

from __future__ import annotations

from pathlib import Path

from textual import events
from textual.app import App, ComposeResult
from textual.widgets import Static

from tests.unit.cli.textual_ui.conftest import nothing_to_do
from vibe.cli.textual_ui.input.prompt_area import PromptArea
from vibe.cli.textual_ui.input.prompt_input import CompletionPopup, PromptInput


class InputStage(App[None]):
    CSS = "#above { height: 1fr; }"

    def __init__(self, prompt: PromptInput | None = None, history: Path | None = None) -> None:
        super().__init__()
        self.prompt = prompt or PromptInput(history=history, placeholder="Ask anything")
        self.sent: list[PromptInput.Sent] = []
        self.wanted: list[str] = []
        self.bubbled: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("above", id="above")
        yield self.prompt

    def press(self, *keys: str) -> None:
        """Press all keys at once, as a script or a fast typist does. ``settled`` waits until they have acted."""
        for key in keys:
            self.post_message(events.Key(key, key if len(key) == 1 else None))

    def on_mount(self) -> None:
        self.prompt.focus()

    def on_key(self, event: events.Key) -> None:
        self.bubbled.append(event.key)

    def on_prompt_input_sent(self, event: PromptInput.Sent) -> None:
        self.sent.append(event)

    def on_prompt_input_editor_wanted(self, event: PromptInput.EditorWanted) -> None:
        self.wanted.append(event.text)

    async def threads_done(self) -> None:
        """Wait for the threads at work, and for those that their results start."""
        while any(not worker.is_finished for worker in self.workers):
            await self.workers.wait_for_complete()  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
            await nothing_to_do()

    @property
    def popup(self) -> CompletionPopup:
        return self.prompt.query_one(CompletionPopup)

    @property
    def offered(self) -> list[str]:
        return [candidate.label for candidate in self.popup.candidates]

    def rows(self) -> list[str]:
        """Return the rows of the screen."""
        strips = self.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]  nothing else shows all
        return ["".join(segment.text for segment in strip) for strip in strips]

    @property
    def notices(self) -> list[str]:
        return [toast.message for toast in self._notifications]

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.sent]

    @property
    def area(self) -> PromptArea:
        return self.prompt.query_one(PromptArea)

    @property
    def mark(self) -> str:
        return str(self.prompt.query_one("#mark", Static).content)
