"""VibeApp: the Textual app, its screens and the key bindings that work on all of them; ``show`` runs it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
import tomllib
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import STDOUT
from typing import Any, ClassVar, TypeAlias, cast

import anyio
from msgspec import Struct, structs
from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import AppBlur, AppFocus, Event, Key as KeyPressed, Paste
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, TextArea

from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import handled_signals
from vibe.cli.textual_ui import palettes
from vibe.cli.textual_ui.chat_screen import ChatScreen, Hold
from vibe.cli.textual_ui.controllers.app_controller import AppController
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.overview.summaries import ViewSnapshot, away_summary, snapshot
from vibe.cli.textual_ui.overview.ticker import StatusLine
from vibe.cli.textual_ui.refresher import SECONDS_PER_FRAME, Refresher
from vibe.cli.textual_ui.state_store import UIStateStore
from vibe.core.config.foreign_keys import MOVED, moved
from vibe.core.config.paths import CONFIG_FILE
from vibe.system.awake_loop import run_awake
from vibe.system.programs import open_browser
from vibe.view.agent_view import Key
from vibe.view.view import View


class UiSettings(Struct, frozen=True, kw_only=True):
    """The ``[ui]`` settings, as in ``vibe.core.config.models.UiConfig``.

    ``problem`` says which setting could not be used; it is blank if all of them could.
    """

    theme: str = palettes.FOLLOW
    glyphs: str = "unicode"
    motion: bool = True
    mouse: bool = True
    notify: str = "bell"
    notify_after_seconds: float = 20.0
    status_line: str = ""
    problem: str = ""


def read_settings(home: Path) -> UiSettings:
    """Read the UI settings from the user's vibe folder.

    A setting that can't be used keeps its default, and ``problem`` says so.
    """
    try:
        document = tomllib.loads((home / CONFIG_FILE).read_text(encoding="utf-8"))
        table = document.get("ui", {})
    except FileNotFoundError:
        return UiSettings()
    except (OSError, ValueError) as error:
        return UiSettings(problem=f"{CONFIG_FILE} can't be read ({error}): using the defaults")
    earlier = {key: moved(name, document[name]) for name, ((_, key), _) in MOVED.items() if name in document}
    given = {**earlier, **(cast("dict[str, Any]", table) if isinstance(table, dict) else {})}
    defaults = UiSettings()
    known = {one.name for one in structs.fields(UiSettings)} - {"problem"}
    good = {name: value for name, value in given.items() if name in known and _fits(value, getattr(defaults, name))}
    bad = [name for name in given if name in known and name not in good]
    return UiSettings(**good, problem=f"[ui] {bad[0]}: invalid value, using the default" if bad else "")


def settings_of(env: CliEnvironment) -> UiSettings:
    """Return the settings in the user's vibe folder, overridden by those given for this run."""
    defaults = UiSettings()
    given: Mapping[str, Any] = env.given.values if env.given else {}
    ours = ((name, given.get(f"ui.{name}")) for name in UiSettings.__struct_fields__)
    good = {name: value for name, value in ours if _fits(value, getattr(defaults, name))}
    return structs.replace(read_settings(env.home), **good)


def _fits(value: object, default: object) -> bool:
    """Return whether a value has the type of the default; an int will do where the default is a float."""
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


class Attention:
    """Calls ``notify`` with a few words when the person is needed, or when work has ended.

    The end of work that took less than ``after`` seconds is not announced.
    """

    def __init__(self, notify: Callable[[str], object], after: float) -> None:
        self._notify = notify
        self._after = after
        self._waiting = 0
        self._since: float | None = None
        """The start of the prompt that is being answered, in Unix seconds; None if there is none."""
        self._plans: dict[str, float | None] = {}
        """The end of each plan, by plan id; None while it goes on."""

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """Announce new requests, and the plans and prompts that have ended since the last call."""
        waiting, self._waiting = self._waiting, len(view.requests)
        if self._waiting and not waiting:
            self._notify("vibe waits for you")
        self._look_at_prompt(view)
        for plan_id, plan in view.plans.items():
            ended = plan.ended_at
            if ended is not None and self._plans.get(plan_id, ended) is None and plan.elapsed(ended) >= self._after:
                self._notify(f"vibe: plan {plan.status}")
            self._plans[plan_id] = ended

    def _look_at_prompt(self, view: View) -> None:
        main = view.main
        prompt = None if main is None else main.prompt
        if prompt is not None:
            self._since = prompt.ts
            return
        since, self._since = self._since, None
        run = None if main is None else view.runs.get(main.source)
        if since is not None and run is not None and run.updated_at - since >= self._after:
            self._notify("vibe answered")


AWAY_SECONDS = 120.0
"""The time out of focus after which the person gets a summary of what happened meanwhile."""
PATIENCE = 0.5
"""The longest time, in seconds, that a key waits for the one before it to be handled."""
LEAVE_SECONDS = 2.0
"""The time within which a second Ctrl+C on an empty line quits, and a second Esc opens ``/rewind``."""
WEB = ("http://", "https://")
SHOWS_PAGES = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Environment variables of which at least one is set where a graphical browser can open."""

_log = logging.getLogger(__name__)


class VibeApp(App[None]):
    """The app: one chat screen, with other screens pushed over it.

    ``leave`` is called to quit while there is no conversation yet, and ``clock`` returns Unix seconds. ``next_chat``
    holds the next chat on the screen.
    """

    TITLE = "vibe"
    CSS = """
    * {
        scrollbar-color: $foreground 25%;
        scrollbar-color-hover: $foreground 45%;
        scrollbar-color-active: $primary;
        scrollbar-background: $foreground 5%;
        scrollbar-background-hover: $foreground 5%;
        scrollbar-background-active: $foreground 5%;
        scrollbar-corner-color: transparent;
    }
    ToastRack { dock: top; align: right top; margin: 0; }
    Toast { padding: 0 1; }
    Input > .input--placeholder, TextArea > .text-area--placeholder { color: $foreground-muted; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop, close, put off; twice on an empty line: go back", show=False),
        Binding("ctrl+c", "stop_or_clear", "Copy, stop, clear, leave", priority=True, show=False),
        Binding("ctrl+d", "leave_if_blank", "Leave", priority=True, show=False),
        Binding("ctrl+o", "toggle_calls", "Unfold all calls", show=False),
        Binding("ctrl+z", "suspend", "Go to the shell; fg comes back", priority=True, show=False),
        Binding("ctrl+p", "show('palette')", "All commands", priority=True, show=False),
        Binding("f1", "show('help')", "Help", priority=True, show=False),
        Binding("f8", "send_back", "The command that runs: to the background", show=False),
        Binding("shift+tab", "next_mode", "Mode: the next one", priority=True, show=False),
    ]

    class Passed(Message):
        """Follows a key along the same path: once it bubbles up to the app, everything on the way has seen the key."""

    def __init__(
        self, env: CliEnvironment, leave: Callable[[], object], clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(driver_class=_driver_class())
        self._keys = deque[KeyPressed | Paste]()
        """Keys and pastes that wait for the one before them to be handled."""
        self._passing: Timer | None = None
        """Ends the wait for a key that got lost on its way; None if no key is on its way."""
        self._last_was_text = False
        """True if the last key passed on was text, which may still be on its way."""
        self._follow_theme = partial(palettes.follow_theme, has_few=palettes.has_few_colours(env.environ))
        for theme in (*palettes.OWN, self._follow_theme(is_dark=palettes.seems_dark(env.environ))):
            self.register_theme(theme)
        self.settings = settings_of(env)
        self._sign_filters = [] if self.settings.motion else [palettes.SignFilter(palettes.STILL)]
        self._sign_filters += [palettes.SignFilter(palettes.ASCII)] if self.settings.glyphs == "ascii" else []
        self.animation_level = self.animation_level if self.settings.motion else "none"
        is_known = self.settings.theme in self.available_themes
        self.set_reactive(App.theme, self.settings.theme if is_known else palettes.FOLLOW)
        self.stylesheet.set_variables(self.get_css_variables())  # now, so that the first frame is not styled twice
        self._env = env
        self.store = UIStateStore(lambda: self.call_later(self._refresher.request))  # possibly from another task
        self.controller = AppController(self.store, leave)
        self.chat_screen = ChatScreen(env, self.store, self.controller, self.switch, clock)
        self.next_chat: Hold | None = None
        self.cover: Cover | None = None
        """A screen to show over the chat from the first frame on, and the callback for its result."""
        self.back: Callable[[], object] | None = None
        """Returns to the screen this chat was opened from; None if there is none."""
        self._pressed = ("", 0.0)
        self._refresher = Refresher(self, self.store.flush, SECONDS_PER_FRAME)
        self._away: tuple[float, ViewSnapshot] | None = None
        """The monotonic time at which the terminal lost focus, and the state at that time; None while it has focus."""

    @property
    def crash(self) -> Exception | None:
        """The error that ended the app, or None."""
        return self._exception

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables, with text colours adjusted until they are readable."""
        self.theme_variables = palettes.readable(super().get_css_variables())
        return self.theme_variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's line filters, those that replace signs, and our own for few or no colours.

        Where Textual would show greys for lack of colours, and with the terminal's own 16 colours, ours take the
        place of Textual's.
        """
        filters = [palettes.GROUNDLESS] if self.native_ansi_color else super().get_line_filters()
        filters = [palettes.UNCOLOURED] if self.no_color else filters
        return [*filters, *self._sign_filters]

    def get_default_screen(self) -> ChatScreen:
        """Return the chat screen."""
        return self.chat_screen

    async def on_event(self, event: Event) -> None:
        """Pass keys on one at a time, so that each goes to where the one before it led, however fast they come.

        Keys that come before the first frame go straight to the screen, which puts them into the prompt.
        """
        is_new = not event.is_forwarded and self.chat_screen.is_drawn.is_set()
        if is_new and isinstance(event, KeyPressed | Paste):
            self._keys.append(event)
            await self._pass_keys()
        else:
            await super().on_event(event)

    async def _pass_keys(self) -> None:
        """Pass on the waiting keys.

        Text goes at once. Any other key waits until all before it has been handled, and what follows waits for it.
        """
        while self._keys and self._passing is None:
            event = self._keys[0]
            if self.screen is self.chat_screen:
                self.chat_screen.focus_for(event)
            is_text = isinstance(event, Paste) or event.is_printable
            is_text = is_text and isinstance(self.focused, TextArea | Input)
            if is_text or not self._last_was_text:
                if isinstance(event, Paste) or event.key != self._pressed[0]:
                    self._pressed = ("", 0.0)  # a key counts as pressed twice only with no other key in between
                await super().on_event(self._keys.popleft())
            self._last_was_text = is_text
            if not is_text and (self.focused or self.screen).post_message(self.Passed()):
                self._passing = self.set_interval(PATIENCE, self._pass_next)

    @on(Passed)
    async def _pass_next(self) -> None:
        if self._passing is not None:
            self._passing.stop()
            self._passing = None
        await self._pass_keys()

    def on_mount(self) -> None:
        """Ask for the terminal's background if the theme follows it, and say what is wrong with the settings."""
        self.watch_theme(self.theme)
        if self.cover is not None:
            self.push_screen(*self.cover)
        problem = self.settings.problem
        if self.settings.theme not in self.available_themes:
            problem = problem or f"there is no theme {self.settings.theme!r} ([ui] theme): /theme lists them"
        if problem:
            self.chat_screen.say(problem, "warning")
        self.store.add(Attention(self._call_person, self.settings.notify_after_seconds).present)
        if self.settings.status_line.strip():
            chat, env = self.chat_screen, self._env
            line = StatusLine(chat.ticker, self.settings.status_line, env.environ, env.cwd, chat.say)
            self.store.add(line.present)

    def watch_theme(self, name: str) -> None:
        """Ask the terminal for its background if the theme follows it; nothing waits for the answer."""
        if name == palettes.FOLLOW and self._driver is not None:
            self._driver.write(palettes.ASK_BACKGROUND)

    @on(palettes.BackgroundReported)
    def _follow(self, message: palettes.BackgroundReported) -> None:
        """Switch the ``follow`` theme to the palette that fits the terminal's background."""
        followed = self._follow_theme(is_dark=message.is_dark)
        is_other = followed != self.available_themes[palettes.FOLLOW]
        self.register_theme(followed)
        if is_other and self.theme == palettes.FOLLOW:
            self.mutate_reactive(App.theme)

    @on(ChatLog.LinkClicked)
    def _open_link(self, message: ChatLog.LinkClicked) -> None:
        """Open a web address in the person's browser; the model wrote it, so no other kind of link is opened."""
        url, environ = message.url, self._env.environ
        if not url.startswith(WEB):
            self.notify(f"not opened, as it is not a web page: {url}", severity="warning", markup=False)
        elif sys.platform == "linux" and not any(environ.get(name) for name in SHOWS_PAGES):
            self.copy_to_clipboard(url)  # a text browser would take over this terminal
            self.notify(f"no browser here; the address was copied: {url}", markup=False)
        else:
            self.run_worker(partial(open_browser, url, environ), thread=True, group="links", exit_on_error=False)

    @on(AppBlur)
    def _look_away(self) -> None:
        self._away = (time.monotonic(), snapshot(self.store.view))

    @on(AppFocus)
    def _look_back(self) -> None:
        """Summarise what happened if the terminal was out of focus for long enough."""
        if self._away is not None and time.monotonic() - self._away[0] >= AWAY_SECONDS:
            summary = away_summary(self._away[1], self.store.view)
            if summary:
                self.chat_screen.say(summary)
        self._away = None

    def switch(self, hold: Hold | None) -> None:
        """Leave the chat and go on with the next one; None if the person has not chosen one yet."""
        self.next_chat = hold
        self.chat_screen.log_view.reset()
        self.store.restart()
        self.controller.switch()

    async def hold(self, load: Hold) -> None:
        """Hold a chat on the chat screen, and each chat that follows it, until the person leaves.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: a chat could not be opened or closed.
        """
        self.next_chat = load
        with self._context():  # this task is not one of Textual's, and widgets need the active app
            while self.next_chat is not None:
                next_chat, self.next_chat = self.next_chat, None
                await next_chat(self.chat_screen)

    # --- keys

    def action_stop(self) -> None:
        """Stop what is at work and put the queued prompts back into the prompt; pressed twice when idle, rewind.

        A chat that was opened from a list goes back to the list instead, if nothing is typed.
        """
        if self.back is not None and not self.chat_screen.prompt.text:
            self.back()
        elif self.controller.interrupt():
            self.chat_screen.action_recall("all")
        elif self._is_second_press("" if self.chat_screen.prompt.text else "escape"):
            self.controller.submit("/rewind")

    def action_stop_or_clear(self) -> None:
        """Copy the selection; without one stop what is at work, else clear the prompt, else quit if pressed twice."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
            self.notify("copied the selection", timeout=LEAVE_SECONDS)
            self.screen.clear_selection()
        elif self.controller.interrupt():
            self.chat_screen.action_recall("all")
        elif self.chat_screen.prompt.text.strip():
            self.chat_screen.prompt.clear()
        elif self._is_second_press("ctrl+c"):
            self.chat_screen.leave()
        else:
            self.notify("Ctrl+C again to quit", timeout=LEAVE_SECONDS)

    def _is_second_press(self, key: str) -> bool:
        """Return whether ``key`` was also the last one, within ``LEAVE_SECONDS``; a blank ``key`` starts over."""
        (before, then), now = self._pressed, time.monotonic()
        is_second = bool(key) and before == key and now - then < LEAVE_SECONDS
        self._pressed = ("" if is_second else key, now)
        return is_second

    def action_leave_if_blank(self) -> None:
        """Leave if nothing is typed."""
        if not self.chat_screen.prompt.text.strip():
            self.chat_screen.leave()

    def action_suspend(self) -> None:
        """Suspend the process and return to the shell; ``fg`` comes back."""
        os.kill(os.getpid(), signal.SIGTSTP)

    def _action_toggle_calls(self) -> None:
        """Fold or unfold all tool calls."""
        self.chat_screen.log_view.toggle_all_calls()

    def _action_send_back(self) -> None:
        """Move the command that the agent waits for to the background, so that the agent goes on."""
        if self.controller.chat is not None:
            self.controller.chat.send_back()

    def action_next_mode(self) -> None:
        """Switch to the next mode; while a panel is shown in place of the prompt, go to the previous panel."""
        if self.screen.has_class("asking"):
            self.chat_screen.bottom.action_look(-1)
        elif self.controller.chat is not None:
            self.controller.chat.next_mode()

    def _action_show(self, what: str) -> None:
        """Show the command palette or the help over the current screen; if that is a picker, close it."""
        from vibe.cli.textual_ui.screens import picker_screen  # noqa: PLC0415  after the first frame

        if isinstance(self.screen, picker_screen.PickerScreen):
            self.screen.action_leave()
            return
        tables = {"app.": self.BINDINGS, "": self.chat_screen.BINDINGS, "chat": ChatLog.OF_ENTRY}
        picker = picker_screen.menu_of(what, self.controller.commands(), tables)
        back = "help " if what.startswith("help ") else ""
        self.push_screen(picker_screen.PickerScreen(picker), lambda line: self._take_choice(line or back))

    def _take_choice(self, line: str) -> None:
        """Act on the chosen line: open a help topic or the topics, fill in or run a slash command, or run an action."""
        if not line:
            return
        if line.startswith("help "):
            self._action_show(line)
        elif line.endswith(" "):
            self.chat_screen.prompt.set_text(line)
        elif line.startswith("/"):
            self.chat_screen.submit(line)
        else:
            self.call_later(self.run_action, line, self.chat_screen)

    def _call_person(self, words: str) -> None:
        """Notify the person in the way the settings say: by an OSC 9 notification, by the bell, or not at all."""
        if self.settings.notify == "osc9" and self._driver is not None:
            self._driver.write(f"\x1b]9;{words}\x07")
        elif self.settings.notify == "bell":
            self.bell()

    def _fatal_error(self) -> None:
        """Log the error without printing a traceback: the command line says what broke and how to go on."""
        _log.error("the screen broke down", exc_info=self._exception)
        self._close_messages_no_wait()


def _driver_class() -> type[Driver] | None:
    """Return our driver for Unix terminals, or None for Textual's own driver on Windows."""
    if sys.platform == "win32":
        return None
    from vibe.cli.textual_ui.terminal_driver import TerminalDriver  # noqa: PLC0415  it can't be loaded elsewhere

    return TerminalDriver


# --- opening it

SWITCH_SECONDS = 0.001
"""The interpreter's switch interval while one thread loads the engine and another one handles the person's keys."""
COLLECTED_AT = (5_000, 20, 30)
"""Thresholds of the garbage collector: high, because its pauses can be felt while typing.

They can't be much higher, as Textual's painted lines contain reference cycles: with 100 in place of 30, a thousand
turns left 20 MB behind.
"""


Cover: TypeAlias = tuple[Screen[str], Callable[[str | None], None]]


def show(load: Callable[[], Hold], env: CliEnvironment, cover: Cover | None = None) -> int:
    """Run the app until the person leaves, and return the exit code.

    ``load`` loads the engine and returns the function that holds a chat on the screen. It is called in a thread after
    the first frame. ``cover`` is shown over the chat from the first frame on.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: the conversation could not be opened or closed.
    """
    return run_awake(_show, load, env, cover)


async def _show(load: Callable[[], Hold], env: CliEnvironment, cover: Cover | None) -> int:
    starting = anyio.CancelScope()
    app = VibeApp(env, starting.cancel)
    app.cover = cover
    problem: Exception | None = None

    async def hold() -> None:
        nonlocal problem
        try:
            with starting:
                await app.chat_screen.is_drawn.wait()
                with _short_switches(env):
                    first = await anyio.to_thread.run_sync(load)
                if env.owns_process:
                    gc.freeze()  # what is loaded stays
                    gc.set_threshold(*COLLECTED_AT)
                await app.hold(first)
        except Exception as error:  # noqa: BLE001  raised once the terminal is restored
            problem = error
        finally:
            app.exit()

    def on_signal(which: signal.Signals, _count: int) -> None:
        if which is signal.SIGINT:
            app.controller.interrupt()
        else:
            app.controller.leave()

    async with handled_signals(env, on_signal) as signals, anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
        await app.run_async(mouse=app.settings.mouse)
        app.controller.leave()
    about = None if app.controller.chat is None else app.controller.chat.about
    parting = app.chat_screen.parting or ("saved" if about is not None and about.saved.messages else "")
    error = app.crash or problem  # a crash of the app comes first: it may have caused the problem
    left = app.store.view.plans.get(app.chat_screen.left_running)
    if left is not None and left.status == "paused" and error is None:
        env.stdout.write(await _resume_detached(env, left.id))
    elif parting:
        goes_on = f" · {about.goes_on}" if about is not None and about.session_id else ""
        env.stdout.write(f"{parting}{goes_on}\n")
    if error is not None:
        raise error
    return signals.exit_code or ExitCode.DONE


async def _resume_detached(env: CliEnvironment, plan_id: str) -> str:
    """Resume a paused plan in a detached process, and return what to print about it."""
    command = (sys.executable, "-P", "-m", "vibe.cli.main", "plan", "resume", plan_id, "--detach")
    done = await anyio.run_process(command, check=False, stderr=STDOUT, cwd=env.cwd, env=env.for_another)
    if done.returncode:
        return f"{done.stdout.decode(errors='replace')}the plan is paused · vibe plan resume {plan_id}\n"
    return f"the plan goes on · vibe --attach {plan_id} looks on\n"


@contextmanager
def _short_switches(env: CliEnvironment) -> Generator[None]:
    """Let threads switch more often while the block runs, if the process is ours."""
    before = sys.getswitchinterval()
    if env.owns_process:
        sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        if env.owns_process:
            sys.setswitchinterval(before)
