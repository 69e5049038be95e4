"""SetupScreen: guides the person through the first setup: provider, key, model, a test answer and theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import ClassVar

from anyio import to_thread
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from vibe.app.first_use.flow import (
    BadKeyError,
    FirstUse,
    KeyStore,
    ModelMenu,
    ProviderChoice,
    SetupSelection,
    checked_key,
)
from vibe.cli.textual_ui.input.prompt_area import OneLine
from vibe.cli.textual_ui.palettes import listed
from vibe.cli.textual_ui.panels.request_queue import PendingAnswer
from vibe.cli.textual_ui.refresher import app_of
from vibe.system.errors import VibeError
from vibe.system.keyring import keyring_problem
from vibe.system.plain_text import one_line, plain_line

LONGEST_ROW = 200
LONGEST_SENTENCE = 600
WELCOME = (
    "Welcome to vibe.\n\nChoose a provider, give its API key and choose a model. A test question checks that they work "
    "together. The key is stored in your keyring, or in a file that only you can read. Nothing is changed until the "
    "model has answered."
)
ANOTHER_KEY, ANOTHER_MODEL, TRY_AGAIN, KEEP = "another key", "another model", "try again", "save it anyway"


class SetupStep(Enum):
    """The steps of the setup, each with its key hints."""

    WELCOME = 1, "Enter begin · Esc set up later"
    PROVIDER = 2, "↑↓ Enter choose · Esc skip"
    KEY = 3, "Enter continue · Esc skip"
    MODEL = 4, "↑↓ Enter choose · type to find · Esc skip"
    TRIAL = 5, "↑↓ Enter choose · Esc skip"
    PLACE = 6, "↑↓ Enter choose · Esc skip"
    THEME = 7, "↑↓ preview · Enter choose · Esc keep the old one"
    DONE = 8, "Enter or Esc close"


class SetupScreen(Screen[bool]):
    """Sets vibe up with the person; the result says whether a model was saved. Esc leaves it at every step.

    ``open_flow`` is called in a thread once the screen is shown.
    """

    CSS = """
    SetupScreen { align: center middle; }
    SetupScreen > Vertical {
        width: 90%; max-width: 90; height: auto; max-height: 100%; overflow-y: auto;
        border: round $primary; padding: 0 1;
    }
    SetupScreen Static { height: auto; margin-bottom: 1; }
    SetupScreen #problem { color: $text-error; display: none; }
    SetupScreen OptionList {
        height: auto; max-height: 10; border: none; padding: 0; margin-bottom: 1; background: transparent;
    }
    SetupScreen Input, SetupScreen Input:focus { height: 1; border: none; padding: 0 1; margin-bottom: 1; }
    SetupScreen #keys { color: $foreground-muted; height: 1; margin: 0; dock: bottom; }
    SetupScreen.-low > Vertical { width: 100%; border: none; }
    SetupScreen.-low Static, SetupScreen.-low OptionList { margin: 0; }
    SetupScreen.-low OptionList { max-height: 3; }
    SetupScreen.-low #words { max-height: 2; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (7, "-high")]  # noqa: RUF012  not a class variable by Textual's types
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "skip", priority=True),
        Binding("enter", "go_on", "go on", priority=True),
        Binding("down", "move(1)", "next", priority=True, show=False),
        Binding("up", "move(-1)", "previous", priority=True, show=False),
    ]

    def __init__(self, open_flow: Callable[[], FirstUse]) -> None:
        super().__init__()
        self.step = SetupStep.WELCOME
        self._open_flow = open_flow
        self._menu: ModelMenu | None = None
        self._rows: Sequence[str] = ()
        """The names that the options stand for."""
        self._answer = PendingAnswer[str]()
        """The name that was chosen or the text that was typed; blank if neither was."""
        self._is_kept = False
        self._theme_before = ""
        """The theme that Esc brings back after others were previewed."""

    def compose(self) -> ComposeResult:
        """Compose the words, a problem, options, an input and the keys; each step shows those it needs."""
        with Vertical() as box:
            box.border_title = "Set up vibe"
            yield Static(id="words")
            yield Static(id="problem")
            yield OptionList()
            yield OneLine()
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Show the welcome and start the setup, which loads the flow meanwhile."""
        self._show(SetupStep.WELCOME, WELCOME)
        self._work = self.run_worker(self._set_up(self._answer))

    def action_leave(self) -> None:
        """Leave the setup; on the theme step, bring the old theme back and go on."""
        if self.step is SetupStep.THEME:
            app_of(self).theme = self._theme_before
            self._answer.give("")
        else:
            self._work.cancel()  # an answer that is on its way would find no screen
            self.dismiss(self._is_kept)

    def action_move(self, by: int) -> None:
        """Mark another option."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def action_go_on(self) -> None:
        """Answer with the marked option, or else with what is typed."""
        if self.step is SetupStep.DONE:
            self.dismiss(self._is_kept)
        else:
            self._answer.give(self._marked() or self.query_one(Input).value)

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        """Preview the marked theme."""
        message.stop()
        name = self._marked()
        if self.step is SetupStep.THEME and name is not None:
            app_of(self).theme = name

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Answer with the clicked option."""
        message.stop()
        self.action_go_on()

    def on_input_changed(self, message: Input.Changed) -> None:
        """List the models that match what is typed."""
        if self.step is SetupStep.MODEL and self._menu is not None:
            self._show_options(self._menu.like(message.value))

    # --- one step after the other

    async def _set_up(self, begun: PendingAnswer[str]) -> None:
        """Ask for everything until a choice is saved."""
        try:
            flow = await to_thread.run_sync(self._open_flow)
        except VibeError as error:
            self._show_problem(str(error))
            return
        await begun.given()
        self._show(SetupStep.PROVIDER, "Choose a provider")
        rows = {choice.name: f"{choice.name}: {choice.about}" for choice in flow.choices}
        choice = flow.choice(await self._pick(list(rows), list(rows.values()), marked=flow.likely))
        closing = await self._complete(flow, SetupSelection(choice=choice, model=""))
        self._is_kept = True
        self._show(SetupStep.DONE, closing, await self._choose_theme(flow))

    async def _complete(self, flow: FirstUse, selection: SetupSelection) -> str:
        """Ask for key and model, test them and save them, again until that succeeds; return the closing words."""
        word = ANOTHER_KEY
        while True:
            if word == ANOTHER_KEY:
                selection = replace(selection, key=await self._ask_key(selection.choice))
            if word in {ANOTHER_KEY, ANOTHER_MODEL}:
                selection = await self._ask_model(flow, selection)
            answered = ""
            if word == KEEP:
                self._show(SetupStep.TRIAL, "Saving it ...")
            else:
                self._show(SetupStep.TRIAL, f"Testing {plain_line(selection.model)} ...")
                trial = await flow.try_out(selection)
                answered = trial.sentence
                if trial.fault is not None:
                    likely = {"key": ANOTHER_KEY, "model": ANOTHER_MODEL}.get(trial.fault.value, TRY_AGAIN)
                    key = [ANOTHER_KEY] if selection.choice.variable else []
                    words = [*key, ANOTHER_MODEL, TRY_AGAIN, KEEP]
                    word = await self._ask_next("The test failed. What now?", answered, words, likely)
                    continue
            try:
                closing = await to_thread.run_sync(flow.keep, await self._ask_place(flow, selection))
            except VibeError as error:
                word = await self._ask_next("What now?", str(error), [TRY_AGAIN, KEEP], KEEP)
            else:
                return "\n".join(filter(None, ("Ready.\n", answered, *closing)))

    async def _ask_key(self, choice: ProviderChoice, problem: str = "") -> str:
        """Return the key that is typed; blank if the one that was found is to be used, or none is needed."""
        if not choice.variable:
            return ""
        found = f" Enter alone uses the one in {choice.key_place}." if choice.key_place else ""
        self._show(SetupStep.KEY, f"The key of {choice.name} ({choice.variable}).{found}", problem)
        self._show_input(placeholder="paste the key; it is not shown", secret=True)
        while (text := await self._next_answer()).strip() or not choice.key_place:
            try:
                return checked_key(text)
            except BadKeyError as error:
                self._show_problem(str(error))
        return ""

    async def _ask_model(self, flow: FirstUse, selection: SetupSelection) -> SetupSelection:
        """Return the selection with a model, and with another key if the provider refuses the current one."""
        choice = selection.choice
        while True:
            self._menu = None
            self._show(SetupStep.MODEL, f"Asking {choice.name} for its models ...")
            menu = await to_thread.run_sync(partial(flow.models, choice, selection.key), abandon_on_cancel=True)
            if not menu.key_is_refused:
                break
            problem = f"{choice.name} refused the key: check that all of it was copied"
            selection = replace(selection, key=await self._ask_key(choice, problem))
        self._show(SetupStep.MODEL, f"Which model of {choice.name}?", menu.problem)
        self._menu = menu
        self._show_input(placeholder="type to filter, or enter a model name")
        return replace(selection, model=(await self._pick(menu.names)).strip())

    async def _ask_next(self, question: str, problem: str, words: Sequence[str], likely: str) -> str:
        self._show(SetupStep.TRIAL, question, problem)
        return await self._pick(words, marked=words.index(likely) if likely in words else 0)

    async def _ask_place(self, flow: FirstUse, selection: SetupSelection) -> SetupSelection:
        """Return the selection with the place to store its key, after asking if it has one and a keyring works."""
        problem = await to_thread.run_sync(keyring_problem, abandon_on_cancel=True) if selection.key else "no key"
        if problem is not None:
            return selection
        self._show(SetupStep.PLACE, "Where should the key be stored?")
        word = await self._pick(list(KeyStore), ["the keyring", flow.env_file])
        self._show(SetupStep.TRIAL, "Saving it ...")
        return replace(selection, store=KeyStore(word))

    async def _choose_theme(self, flow: FirstUse) -> str:
        """Let the person choose a theme and save it; return what went wrong, or a blank string."""
        app = app_of(self)
        self._theme_before = app.theme
        names = listed(app.available_themes)
        self._show(SetupStep.THEME, "Choose a theme. The screen previews it.")
        self._show_options(names, marked=names.index(app.theme) if app.theme in names else 0)
        name = await self._next_answer()
        try:
            if name not in {"", self._theme_before}:
                await to_thread.run_sync(flow.keep_theme, name)
        except VibeError as error:
            return str(error)
        return ""

    async def _next_answer(self) -> str:
        """Wait for the next Enter, and return the answer given with it."""
        self._answer = PendingAnswer[str]()
        return await self._answer.given()

    async def _pick(self, names: Sequence[str], rows: Sequence[str] = (), *, marked: int = 0) -> str:
        """Return the name that is picked, or typed if there is an input."""
        self._show_options(names, rows, marked=marked)
        while not (name := await self._next_answer()).strip():
            continue
        return name

    # --- widgets

    def _show(self, step: SetupStep, words: str, problem: str = "") -> None:
        """Show a step with its words only; ``_show_options`` and ``_show_input`` add the options and the input."""
        self.step = step
        self._rows = ()
        lines = [one_line(line, LONGEST_SENTENCE) for line in words.split("\n")]
        self.query_one("#words", Static).update(Content("\n".join(lines)))
        self.query_one("#keys", Static).update(Content(step.value[1]))
        self._show_problem(problem)
        line, options = self.query_one(Input), self.query_one(OptionList)
        with self.prevent(Input.Changed):
            line.value = ""
        line.display = options.display = False
        self.set_focus(None)

    def _show_problem(self, problem: str) -> None:
        words = self.query_one("#problem", Static)
        words.display = bool(problem)
        words.update(Content(one_line(problem, LONGEST_SENTENCE)))

    def _show_input(self, *, placeholder: str, secret: bool = False) -> None:
        line = self.query_one(Input)
        line.placeholder, line.password, line.display = placeholder, secret, True
        line.focus()

    def _show_options(self, names: Sequence[str], rows: Sequence[str] = (), *, marked: int = 0) -> None:
        """Offer names as options, shown as ``rows`` if given."""
        self._rows, rows = names, rows or names
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(Content(one_line(row, LONGEST_ROW))) for row in rows)
        options.display = bool(rows)
        if rows:
            options.highlighted = marked

    def _marked(self) -> str | None:
        number = self.query_one(OptionList).highlighted
        return self._rows[number] if number is not None and number < len(self._rows) else None
