"""The slash commands that only the screen has: ``/attach``, ``/find``, ``/review``, ``/setup`` and ``/theme``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyio import to_thread
from textual.app import App

from ipc.registry import Registry
from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.app.first_use.flow import FirstUse
from vibe.cli.textual_ui.chat_screen import ChatScreen, choice_of
from vibe.cli.textual_ui.palettes import FOLLOW, listed
from vibe.cli.textual_ui.refresher import app_of
from vibe.cli.textual_ui.remote_chat import hold_attached
from vibe.cli.textual_ui.screens.picker_screen import PickerScreen
from vibe.cli.textual_ui.screens.review_screen import review_changes
from vibe.cli.textual_ui.screens.setup_screen import SetupScreen
from vibe.core.messages import AssistantMessage
from vibe.front.cells import Line
from vibe.front.picker import Picker, PickRow
from vibe.front.slash.command import SlashCommand, Talk, TypedCommand
from vibe.front.slash.commands.files import going_back
from vibe.front.slash.table import ON_SCREEN
from vibe.front.slash.wording import too_much
from vibe.system.errors import ConfigError, UsageError, VibeError
from vibe.system.plain_text import counted, plus_minus

SAMPLE: list[Line] = [
    [("> ", "accent bold"), ("Fix the tests", "")],
    [],
    [("✓ ", "done"), ("edit ", "bold"), ("shop/cart.py", ""), ("  +1 −1", "muted")],  # noqa: RUF001  a minus
    [("  22 -  total = sum(prices)            ", "failed removed")],
    [("  22 +  total = round(sum(prices), 2)  ", "done added")],
    [("✗ ", "failed"), ("bash ", "bold"), ("pytest", ""), ("  exit 1", "failed")],
    [("? ", "warn bold"), ("asks you", "warn"), ("   ━━━━━╍╍✗━━╸", "accent")],
]


def screen_commands(stage: ChatScreen) -> Mapping[str, SlashCommand]:
    """Return the commands that need a screen, by name."""
    app = app_of(stage)
    handlers = {
        "attach": partial(_attach, stage),
        "find": partial(_find, stage),
        "review": partial(review_changes, partial(choice_of, app)),
        "setup": partial(_set_up, stage),
        "theme": partial(_theme, app),
    }
    pickers = {"theme": partial(_theme_picker, app)}
    return {
        name: SlashCommand(name=name, usage=usage, about=about, handler=handlers[name], picker=pickers.get(name))
        for name, (usage, about) in ON_SCREEN.items()
    }


async def picked(stage: ChatScreen, picker: Picker) -> str | None:
    """Show a picker over the chat and return the line of the choice; it is blank or None if there was none."""
    return await choice_of(app_of(stage), PickerScreen(picker))


async def set_up(stage: ChatScreen, host: Host, workdir: Path) -> bool | None:
    """Show the setup screen for provider, key and model; return True if the person kept a choice."""
    return await choice_of(app_of(stage), SetupScreen(partial(FirstUse, host, workdir)))


def is_due(host: Host, workdir: Path) -> bool:
    """Return whether the user has no API key yet for any model; False if the settings can't be read."""
    with suppress(ConfigError):
        return FirstUse(host, workdir).is_due
    return False


async def tell_changes(talk: Talk, since: int, edited: Collection[str]) -> None:
    """Say what the commands of a turn have changed: its last row counts only the files that were ``edited``."""
    answers = (each for each in talk.conversation.messages[since:] if isinstance(each, AssistantMessage))
    if {"bash", "task"}.isdisjoint(call.name for answer in answers for call in answer.tool_calls):
        return
    with suppress(VibeError):  # the next turn has begun, or no files were recorded
        found = await to_thread.run_sync(going_back, talk, since)
        changed = [diff for file, diff in found if file.path not in edited]
        if changed:
            talk.say(f"commands changed {counted(len(changed), 'file')} {plus_minus(changed)} · /review /diff /undo")


async def _attach(stage: ChatScreen, talk: Talk, typed: TypedCommand) -> None:
    host = talk.runtime.host
    registry = Registry(host.home, host.runtime_dir)
    if not typed.rest:
        running = await to_thread.run_sync(registry.running)
        lines = [f"{one.source}  pid {one.pid}  {one.info.cwd}  {one.info.title}" for one in running]
        talk.say("\n".join(["/attach SOURCE shows another run. Those that run now:", *lines]))
        return
    await to_thread.run_sync(registry.running_as, typed.rest)  # if there is no such run, this chat goes on
    stage.switch(partial(hold_attached, host, typed.rest, ""))


async def _find(stage: ChatScreen, _talk: Talk, typed: TypedCommand) -> None:
    if not typed.rest:
        raise UsageError("/find WORDS: say what to look for")
    if not await stage.presenter.find(typed.rest):
        raise UsageError("/find: not found in this conversation")


async def _set_up(stage: ChatScreen, talk: Talk, typed: TypedCommand) -> None:
    if typed.rest:
        raise too_much(typed)
    if await set_up(stage, talk.runtime.host, talk.opening.workdir):
        await talk.commands["reload"].handler(talk, TypedCommand(name="reload"))


async def _theme(app: App[None], talk: Talk, typed: TypedCommand) -> None:
    names = listed(app.available_themes)
    if typed.rest not in names:
        raise UsageError(f"/theme {typed.rest}: unknown theme; choose from {', '.join(names)}")
    app.theme = typed.rest
    writer = Settings(talk.runtime.host, talk.opening.workdir).writer(project=False, key="ui.theme")
    await to_thread.run_sync(writer.set, "ui.theme", typed.rest)


async def _theme_picker(app: App[None], _talk: Talk) -> Picker:
    """Return a picker of themes that shows the screen in the marked one's colours."""
    before = app.theme
    now = "dark now" if app.available_themes[FOLLOW].dark else "light now"
    rows = [
        PickRow(f"/theme {name}", "follow the terminal" if name == FOLLOW else name, now if name == FOLLOW else "")
        for name in listed(app.available_themes)
    ]

    def look(row: PickRow | None) -> None:
        app.theme = before if row is None else row.line.partition(" ")[2]

    return Picker(
        title="Theme",
        rows=lambda _: rows,
        preview=lambda _row, _mode: SAMPLE,
        look=look,
        first=f"/theme {before}",
        enter="keep",
    )
