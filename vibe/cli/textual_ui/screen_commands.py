"""Slash commands of the screen alone: colours, setting up, sessions to choose from, runs of other processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from textual.app import App
from textual.screen import Screen

from vibe.cli.slash.command import ArgumentChoice, SlashCommand, Talk, Typed
from vibe.cli.slash.wording import too_much
from vibe.cli.textual_ui.controllers.app_controller import Hold
from vibe.cli.textual_ui.screens.session_picker import SessionPicker, SessionRow
from vibe.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


class ScreenCommands:
    """Commands that show something on ``app``.

    ``ask`` opens a screen over it, ``switch`` has it show another chat, and ``find`` scrolls up to a text.
    """

    def __init__(
        self,
        app: App[None],
        ask: Callable[[Screen[Any]], Awaitable[Any]],
        switch: Callable[[Hold], object],
        find: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._app: App[Any] = app
        self._ask = ask
        self._switch = switch
        self._find_above = find

    def table(self) -> Mapping[str, SlashCommand]:
        """The commands by name."""
        return {
            "attach": SlashCommand(
                name="attach",
                usage="SOURCE",
                about="save this conversation and show a run of another process",
                handler=self._attach,
            ),
            "find": SlashCommand(
                name="find",
                usage="WORDS",
                about="search the chat upwards; repeat for the next match",
                handler=self._find,
            ),
            "resume": SlashCommand(
                name="resume", usage="[ID]", about="switch to another session", handler=self._resume
            ),
            "setup": SlashCommand(
                name="setup", about="set up provider, key, model and theme again", handler=self._set_up
            ),
            "theme": SlashCommand(
                name="theme",
                usage="[NAME]",
                about="list themes, or switch to one",
                handler=self._theme,
                choices=self._themes,
            ),
        }

    async def _attach(self, talk: Talk, typed: Typed) -> None:
        from ipc.registry import Registry  # noqa: PLC0415  after the first frame
        from vibe.cli.textual_ui.remote_chat import hold_attached  # noqa: PLC0415  as above

        host = talk.runtime.host
        registry = Registry(host.home, host.runtime_dir)
        if not typed.rest:
            running = await to_thread.run_sync(registry.running)
            lines = [f"{one.source}  pid {one.pid}  {one.info.cwd}  {one.info.title}" for one in running]
            raise UsageError("\n".join(["/attach SOURCE: name a run; those that run now:", *lines]))
        await to_thread.run_sync(registry.running_as, typed.rest)  # else this one goes on
        self._switch(partial(hold_attached, host, typed.rest, ""))

    async def _find(self, _talk: Talk, typed: Typed) -> None:
        if not typed.rest:
            raise UsageError("/find WORDS: say what to look for")
        if not await self._find_above(typed.rest):
            raise UsageError("/find: not found in this conversation")

    async def _resume(self, talk: Talk, typed: Typed) -> None:
        load = partial(_sessions, talk.runtime.host.home, talk.conversation.session_id)
        chosen = typed.rest or await self._ask(SessionPicker(load, str(talk.opening.workdir)))
        if chosen:
            await talk.reopen(replace(talk.opening, resume=chosen, prompt=""))

    async def _set_up(self, talk: Talk, typed: Typed) -> None:
        if typed.rest:
            raise too_much(typed)
        from vibe.app.first_use.flow import FirstUse  # noqa: PLC0415  after the first frame
        from vibe.cli.textual_ui.screens.setup_screen import SetupScreen  # noqa: PLC0415  as above

        is_kept = await self._ask(SetupScreen(partial(FirstUse, talk.runtime.host, talk.opening.workdir)))
        if is_kept:
            await talk.commands["reload"].handler(talk, Typed(name="reload"))

    async def _theme(self, talk: Talk, typed: Typed) -> None:
        from vibe.app.engine.settings import Settings  # noqa: PLC0415  after the first frame

        names = sorted(self._app.available_themes)
        if not typed.rest:
            talk.say("\n".join(f"{'*' if name == self._app.theme else ' '} {name}" for name in names))
            return
        if typed.rest not in names:
            raise UsageError(f"/theme {typed.rest}: unknown theme; choose from {', '.join(names)}")
        self._app.theme = typed.rest
        writer = Settings(talk.runtime.host, talk.opening.workdir).writer(project=False, key="ui.theme")
        await to_thread.run_sync(writer.set, "ui.theme", typed.rest)

    async def _themes(self, _talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
        return [ArgumentChoice(name) for name in sorted(self._app.available_themes)]


def _sessions(home: Path, besides: str) -> Sequence[SessionRow]:
    """Read the saved sessions, but for one."""
    from vibe.core.config.paths import VibePaths  # noqa: PLC0415  after the first frame
    from vibe.core.session.loader import SessionLoader  # noqa: PLC0415  as above

    return [
        SessionRow(
            session_id=saved.meta.session_id,
            title=saved.meta.title,
            workspace=saved.meta.workspace,
            updated=saved.updated,
            transcript=saved.folder.transcript,
        )
        for saved in SessionLoader(VibePaths(home).sessions).all().sessions
        if saved.meta.session_id != besides
    ]
