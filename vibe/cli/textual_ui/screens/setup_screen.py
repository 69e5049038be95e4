"""SetupScreen: the first use, step by step: provider, key, model, a first answer, colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from anyio import to_thread
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from vibe.cli.textual_ui.palettes import listed
from vibe.system.errors import VibeError
from vibe.system.plain_text import plain_line, shortened

if TYPE_CHECKING:
    from vibe.app.first_use.flow import FirstUse, ModelMenu, ProviderChoice, SetupSelection

LONGEST_ROW = 200
LONGEST_SENTENCE = 600
WELCOME = (
    "Welcome to vibe.\n\nChoose a provider, give its API key and choose a model. A test question checks that they work "
    "together. The key is stored in your keyring, or in a file that only you can read. Nothing is changed until the "
    "model has answered."
)
ANOTHER_KEY, ANOTHER_MODEL, TRY_AGAIN, KEEP = "another key", "another model", "try again", "save it anyway"


class SetupStep(Enum):
    """The steps, with the keys that count in each."""

    WELCOME = 1, "Enter begin · Esc set up later"
    PROVIDER = 2, "↑↓ Enter choose · Esc skip"
    KEY = 3, "Enter continue · Esc skip"
    MODEL = 4, "↑↓ Enter choose · type to find · Esc skip"
    TRIAL = 5, "↑↓ Enter choose · Esc skip"
    PLACE = 6, "↑↓ Enter choose · Esc skip"
    THEME = 7, "↑↓ preview · Enter choose · Esc keep the old one"
    DONE = 8, "Enter or Esc close"


class SetupScreen(Screen[bool]):
    """Has a person set vibe up; the result says whether a model was kept. Esc leaves it at every step.

    ``open_flow`` is called in a thread once the screen is there.
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
        self._flow: FirstUse
        self._choice: ProviderChoice
        self._key = ""
        self._menu: ModelMenu | None = None
        self._selection: SetupSelection
        self._rows: Sequence[str] = ()
        """The names behind the options."""
        self._is_loaded = self._is_begun = False
        self._is_kept = False
        self._theme_before = ""
        """The theme that Esc brings back while others are looked at."""
        self._told = ""
        """The last words, said once the theme is chosen."""

    def compose(self) -> ComposeResult:
        """Words, a problem, options, a line to type on, and the keys; each step shows those it needs."""
        with Vertical() as box:
            box.border_title = "Set up vibe"
            yield Static(id="words")
            yield Static(id="problem")
            yield OptionList()
            yield Input()
            yield Static(id="keys")

    def on_mount(self) -> None:
        """Show the welcome, and have the flow loaded behind it."""
        self._show(SetupStep.WELCOME, WELCOME)
        self.run_worker(self._open())

    def action_leave(self) -> None:
        """Leave it as it is now; of colours, as they were."""
        if self.step is SetupStep.THEME:
            self._our_app.theme = self._theme_before
            self._show(SetupStep.DONE, self._told)
            return
        self.dismiss(self._is_kept)

    def action_move(self, by: int) -> None:
        """Mark another option."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def action_go_on(self) -> None:
        """Take what is marked or typed."""
        takes = {
            SetupStep.WELCOME: self._begin,
            SetupStep.PROVIDER: self._take_provider,
            SetupStep.KEY: self._take_key,
            SetupStep.MODEL: self._take_model,
            SetupStep.TRIAL: self._take_next,
            SetupStep.PLACE: self._take_place,
            SetupStep.THEME: self._take_theme,
            SetupStep.DONE: partial(self.dismiss, self._is_kept),
        }
        takes[self.step]()

    def _begin(self) -> None:
        self._is_begun = True
        self._ask_provider()

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        """Show the theme that is marked."""
        message.stop()
        name = self._marked()
        if self.step is SetupStep.THEME and name is not None:
            self._our_app.theme = name

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Take the option clicked."""
        message.stop()
        self.action_go_on()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Show the models that the typed words are in."""
        if self.step is SetupStep.MODEL and self._menu is not None:
            self._list(self._menu.like(message.value), self._menu.like(message.value))

    # --- provider and key

    async def _open(self) -> None:
        try:
            self._flow = await to_thread.run_sync(self._open_flow)
        except VibeError as error:
            self._tell(str(error))
            return
        self._is_loaded = True
        if self._is_begun:
            self._ask_provider()

    def _ask_provider(self) -> None:
        if not self._is_loaded:  # it comes when it is loaded; else the problem is on the screen
            return
        choices = self._flow.choices
        self._show(SetupStep.PROVIDER, "Choose a provider")
        rows = [f"{choice.name}: {choice.about}" for choice in choices]
        self._list([choice.name for choice in choices], rows, marked=self._flow.likely)

    def _take_provider(self) -> None:
        name = self._marked()
        if name is None:
            return
        self._choice, self._key = self._flow.choice(name), ""
        if self._choice.variable:
            self._ask_key()
        else:
            self._ask_model()

    def _ask_key(self, problem: str = "") -> None:
        choice = self._choice
        found = f" Enter alone uses the one in {choice.key_place}." if choice.key_place else ""
        self._show(SetupStep.KEY, f"The key of {choice.name} ({choice.variable}).{found}", problem)
        self._type(placeholder="paste the key; it is not shown", secret=True)

    def _take_key(self) -> None:
        from vibe.app.first_use.flow import BadKeyError, checked_key  # noqa: PLC0415  loaded with the flow

        text = self.query_one(Input).value
        if not text.strip() and self._choice.key_place:
            self._key = ""
        else:
            try:
                self._key = checked_key(text)
            except BadKeyError as error:
                self._tell(str(error))
                return
        self._ask_model()

    # --- model

    def _ask_model(self, problem: str = "") -> None:
        self._menu = None
        self._show(SetupStep.MODEL, f"Asking {self._choice.name} for its models ...", problem)
        self.run_worker(self._list_models(self._choice), exclusive=True)

    async def _list_models(self, choice: ProviderChoice) -> None:
        menu = await to_thread.run_sync(partial(self._flow.models, choice, self._key), abandon_on_cancel=True)
        if menu.key_is_refused:
            self._ask_key(f"{choice.name} refused the key: check that all of it was copied")
            return
        self._show(SetupStep.MODEL, f"Which model of {choice.name}?", menu.problem)
        self._menu = menu
        self._type(placeholder="type to filter, or enter a model name")
        self._list(menu.names, menu.names)

    def _take_model(self) -> None:
        from vibe.app.first_use.flow import SetupSelection  # noqa: PLC0415  loaded with the flow

        model = self._marked() or self.query_one(Input).value.strip()
        if self._menu is None or not model:
            return
        self._try_out(SetupSelection(choice=self._choice, model=model, key=self._key))

    # --- the first question

    def _try_out(self, selection: SetupSelection) -> None:
        self._selection = selection
        self._show(SetupStep.TRIAL, f"Testing {plain_line(selection.model)} ...")
        self.run_worker(self._ask(selection), exclusive=True)

    async def _ask(self, selection: SetupSelection) -> None:
        trial = await self._flow.try_out(selection)
        if trial.fault is None:
            await self._ask_place(selection, trial.sentence)
            return
        self._show(SetupStep.TRIAL, "The test failed. What now?", trial.sentence)
        rows = [ANOTHER_MODEL, TRY_AGAIN, KEEP]
        rows = [ANOTHER_KEY, *rows] if selection.choice.variable else rows
        likely = {"key": ANOTHER_KEY, "model": ANOTHER_MODEL}.get(trial.fault.value, TRY_AGAIN)
        self._list(rows, rows, marked=rows.index(likely) if likely in rows else 0)

    def _take_next(self) -> None:
        word, selection = self._marked(), self._selection
        if word is None:
            return
        if word == ANOTHER_KEY:
            self._ask_key()
        elif word == ANOTHER_MODEL:
            self._ask_model()
        elif word == TRY_AGAIN:
            self._try_out(selection)
        else:
            self._show(SetupStep.TRIAL, "Saving it ...")
            self.run_worker(self._ask_place(selection, ""), exclusive=True)

    # --- the key's place

    async def _ask_place(self, selection: SetupSelection, answered: str) -> None:
        """Ask where the key is to be kept, if there is one and a keyring that works; else keep it all."""
        from vibe.system.keyring import keyring_problem  # noqa: PLC0415  loaded where it is used

        self._selection, self._told = selection, answered
        problem = await to_thread.run_sync(keyring_problem, abandon_on_cancel=True) if selection.key else "no key"
        if problem is not None:
            await self._keep(selection, answered)
            return
        self._show(SetupStep.PLACE, "Where should the key be stored?")
        self._list(["keyring", "file"], ["the keyring", self._flow.env_file])

    def _take_place(self) -> None:
        from vibe.app.first_use.flow import KeyStore  # noqa: PLC0415  loaded with the flow

        word, selection = self._marked(), self._selection
        if word is None:
            return
        self._show(SetupStep.TRIAL, "Saving it ...")
        self.run_worker(self._keep(replace(selection, store=KeyStore(word)), self._told), exclusive=True)

    async def _keep(self, selection: SetupSelection, answered: str) -> None:
        try:
            told = await to_thread.run_sync(self._flow.keep, selection)
        except VibeError as error:
            self._show(SetupStep.TRIAL, "What now?", str(error))
            self._list([TRY_AGAIN, KEEP], [TRY_AGAIN, KEEP], marked=1)
            return
        self._is_kept = True
        self._selection = replace(selection, key="")
        self._key = ""
        self._told = "\n".join(filter(None, ("Ready.\n", answered, *told)))
        self._ask_theme()

    # --- colours

    @property
    def _our_app(self) -> App[None]:
        return cast("App[None]", self.app)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type

    def _ask_theme(self) -> None:
        app = self._our_app
        self._theme_before = app.theme
        names = listed(app.available_themes)
        self._show(SetupStep.THEME, "Choose a theme. The screen previews it.")
        self._list(names, names, marked=names.index(app.theme) if app.theme in names else 0)

    def _take_theme(self) -> None:
        name = self._marked()
        if name is None or name == self._theme_before:
            self._show(SetupStep.DONE, self._told)
        else:
            self.run_worker(self._keep_theme(name), exclusive=True)

    async def _keep_theme(self, name: str) -> None:
        problem = ""
        try:
            await to_thread.run_sync(self._flow.keep_theme, name)
        except VibeError as error:
            problem = str(error)
        self._show(SetupStep.DONE, self._told, problem)

    # --- widgets

    def _show(self, step: SetupStep, words: str, problem: str = "") -> None:
        """Show a step with its words alone; options and the line come with ``_list`` and ``_type``."""
        self.step = step
        self._rows = ()
        lines = [shortened(plain_line(line), LONGEST_SENTENCE) for line in words.split("\n")]
        self.query_one("#words", Static).update(Content("\n".join(lines)))
        self.query_one("#keys", Static).update(Content(step.value[1]))
        self._tell(problem)
        line, options = self.query_one(Input), self.query_one(OptionList)
        with self.prevent(Input.Changed):
            line.value = ""
        line.display = options.display = False
        self.set_focus(None)

    def _tell(self, problem: str) -> None:
        words = self.query_one("#problem", Static)
        words.display = bool(problem)
        words.update(Content(shortened(plain_line(problem), LONGEST_SENTENCE)))

    def _type(self, *, placeholder: str, secret: bool = False) -> None:
        line = self.query_one(Input)
        line.placeholder, line.password, line.display = placeholder, secret, True
        line.focus()

    def _list(self, names: Sequence[str], rows: Sequence[str], *, marked: int = 0) -> None:
        self._rows = names
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(Content(shortened(plain_line(row), LONGEST_ROW))) for row in rows)
        options.display = bool(rows)
        if rows:
            options.highlighted = marked

    def _marked(self) -> str | None:
        number = self.query_one(OptionList).highlighted
        return self._rows[number] if number is not None and number < len(self._rows) else None
