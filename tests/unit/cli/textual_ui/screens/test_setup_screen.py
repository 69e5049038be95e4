"""The first use on the screen, with the real flow and a real server."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from tests.fakes.keyrings import FileKeyring, keyring_of_this_process
from tests.fakes.model_server import ModelServer, Reply
from vibe.app.engine.host import Host
from vibe.app.first_use.flow import FirstUse
from vibe.cli.textual_ui.screens.setup_screen import SetupScreen, SetupStep

KEY = "sk-0123456789abcdefghijWXYZ"
WRONG = "sk-wrong-wrong-wrong-wrong-1234"
SERVED = '[[providers]]\nname = "served"\napi_base = "{}"\napi_key_env_var = "SERVED_KEY"\n'
SIZE = (80, 24)
SECONDS = 60.0


class SetupApp(App[None]):
    """An app with only this screen. ``results`` holds the results with which it was closed."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home
        self.results: list[bool | None] = []
        self.setup = SetupScreen(self.open_flow)

    def open_flow(self) -> FirstUse:
        environ = {"HOME": str(self.home.parent)}
        return FirstUse(Host(home=self.home, environ=environ), self.home.parent)

    def on_mount(self) -> None:
        self.push_screen(self.setup, self.results.append)

    def text(self, name: str) -> str:
        return str(self.setup.query_one(name, Static).render())

    def rows(self) -> list[str]:
        options = self.setup.query_one(OptionList)
        return [str(option.prompt) for option in options.options] if options.display else []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def server(home: Path) -> Iterator[ModelServer]:
    with ModelServer() as running:
        running.key, running.models = KEY, ("large", "small")
        (home / "config.toml").write_text(SERVED.format(running.api_base))
        yield running


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    with anyio.fail_after(SECONDS):
        while not condition():
            await pilot.pause(0.01)


async def begin(pilot: Pilot[None], app: SetupApp) -> None:
    await pilot.press("enter")
    await until(pilot, lambda: app.setup.step is SetupStep.PROVIDER)


async def give_key(pilot: Pilot[None], app: SetupApp, key: str) -> None:
    app.setup.query_one(Input).value = key
    await pilot.press("enter")
    await pilot.pause()


def kept(home: Path) -> bool:
    return (home / ".env").exists() or "active_model" in (home / "config.toml").read_text()


async def test_from_nothing_to_a_model_that_answers(home: Path, server: ModelServer) -> None:
    server.enqueue(Reply(text="ready"))
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "Welcome to vibe." in app.text("#words"))
        await begin(pilot, app)
        assert app.rows()[0].startswith("served: 127.0.0.1:")
        await pilot.press("enter")
        line = app.setup.query_one(Input)
        assert (app.setup.step, line.password, app.setup.focused) == (SetupStep.KEY, True, line)
        await pilot.press(*KEY)
        assert KEY not in app.export_screenshot()
        await pilot.press("enter")
        await until(pilot, lambda: app.rows() == ["large", "small"])
        await pilot.press(*"smal")
        assert app.rows() == ["small"]
        await pilot.press("enter")
        await until(pilot, lambda: app.setup.step is SetupStep.THEME)
        await pilot.press("enter")
        await until(pilot, lambda: app.setup.step is SetupStep.DONE)
        words = app.text("#words")
        await pilot.press("enter")
        await until(pilot, lambda: app.results != [])

    assert "small answered after" in words
    assert "the key ****WXYZ is kept in ~/home/.env as SERVED_KEY" in words
    assert app.results == [True]
    assert (home / ".env").read_text() == f"SERVED_KEY={KEY}\n"
    assert tomllib.loads((home / "config.toml").read_text())["active_model"] == "small"


async def test_a_refused_key_is_asked_for_again(home: Path, server: ModelServer) -> None:
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await begin(pilot, app)
        await pilot.press("enter")
        await give_key(pilot, app, "two words")
        assert "there is a space in it" in app.text("#problem")
        await give_key(pilot, app, WRONG)
        await until(pilot, lambda: "served refused the key" in app.text("#problem"))
        assert (app.setup.step, app.setup.query_one(Input).value) == (SetupStep.KEY, "")

    assert server.requests == []
    assert not kept(home)


async def test_a_model_that_does_not_answer_is_kept_only_if_one_says_so(home: Path, server: ModelServer) -> None:
    server.enqueue(Reply(status=404, body='{"message": "no"}'), Reply(status=500, body='{"message": "oops"}'))
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await begin(pilot, app)
        await pilot.press("enter")
        await give_key(pilot, app, KEY)
        await until(pilot, lambda: app.rows() == ["large", "small"])
        await pilot.press(*"huge")
        assert app.rows() == []
        await pilot.press("enter")
        await until(pilot, lambda: app.rows() == ["another key", "another model", "try again", "save it anyway"])
        assert "'served' does not serve the model 'huge'" in app.text("#problem")
        assert app.setup.query_one(OptionList).highlighted == 1
        assert not kept(home)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "oops" in app.text("#problem"))
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.setup.step is SetupStep.THEME)

    assert tomllib.loads((home / "config.toml").read_text())["active_model"] == "huge"


async def test_a_key_that_is_there_is_taken_with_enter(home: Path, server: ModelServer) -> None:
    (home / ".env").write_text(f"# mine\nSERVED_KEY={KEY}\n")
    server.enqueue(Reply(text="ready"))
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await begin(pilot, app)
        await pilot.press("enter")
        assert "Enter alone uses the one in ~/home/.env" in app.text("#words")
        await pilot.press("enter")
        await until(pilot, lambda: app.rows() == ["large", "small"])
        await pilot.press("enter")
        await until(pilot, lambda: app.setup.step is SetupStep.THEME)

    assert (home / ".env").read_text() == f"# mine\nSERVED_KEY={KEY}\n"


@pytest.mark.parametrize("step", list(SetupStep))
async def test_escape_leaves_at_every_step(home: Path, server: ModelServer, step: SetupStep) -> None:
    server.enqueue(Reply(status=404, body='{"message": "no"}') if step is SetupStep.TRIAL else Reply(text="ready"))
    app = SetupApp(home)
    backend = FileKeyring(home / "keyring.json") if step is SetupStep.PLACE else NoKeyring()
    with keyring_of_this_process(backend):
        await leave_at(app, step)

    assert app.results == [step in {SetupStep.THEME, SetupStep.DONE}]
    assert kept(home) == (step in {SetupStep.THEME, SetupStep.DONE})


async def leave_at(app: SetupApp, step: SetupStep) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "Welcome to vibe." in app.text("#words"))
        if step is not SetupStep.WELCOME:
            await begin(pilot, app)
        if step not in {SetupStep.WELCOME, SetupStep.PROVIDER}:
            await pilot.press("enter")
        if step not in {SetupStep.WELCOME, SetupStep.PROVIDER, SetupStep.KEY}:
            await give_key(pilot, app, KEY)
            await until(pilot, lambda: app.rows() == ["large", "small"])
        if step in {SetupStep.TRIAL, SetupStep.PLACE, SetupStep.THEME, SetupStep.DONE}:
            await pilot.press("enter")
        if step is SetupStep.DONE:
            await until(pilot, lambda: app.setup.step is SetupStep.THEME)
            await pilot.press("enter")
        await until(pilot, lambda: app.setup.step is step)
        await pilot.press("escape")
        if step is SetupStep.THEME:
            assert app.setup.step is SetupStep.DONE  # the last message is kept
            await pilot.press("escape")
        await until(pilot, lambda: app.results != [])


@pytest.mark.parametrize("keys", [("enter",), ("down", "enter")])
async def test_a_key_goes_where_it_is_wanted(home: Path, server: ModelServer, keys: tuple[str, ...]) -> None:
    server.enqueue(Reply(text="ready"))
    app, backend = SetupApp(home), FileKeyring(home / "keyring.json")
    with keyring_of_this_process(backend):
        async with app.run_test(size=SIZE) as pilot:
            await at_model(pilot, app)
            await pilot.press("enter")
            await until(pilot, lambda: app.rows() == ["the keyring", "~/home/.env"])
            await pilot.press(*keys)
            await until(pilot, lambda: app.setup.step is SetupStep.THEME)
            await pilot.press("enter")
            await until(pilot, lambda: app.setup.step is SetupStep.DONE)
            words = app.text("#words")

    in_keyring = keys == ("enter",)
    place = "the keyring" if in_keyring else "~/home/.env"
    assert f"the key ****WXYZ is kept in {place} as SERVED_KEY" in words
    assert "large answered after" in words
    assert backend.entries() == ({"vibe-orchestrator/SERVED_KEY": KEY} if in_keyring else {})
    assert (home / ".env").exists() != in_keyring


async def at_model(pilot: Pilot[None], app: SetupApp) -> None:
    await begin(pilot, app)
    await pilot.press("enter")
    await give_key(pilot, app, KEY)
    await until(pilot, lambda: app.rows() == ["large", "small"])


async def at_themes(pilot: Pilot[None], app: SetupApp, server: ModelServer) -> None:
    server.enqueue(Reply(text="ready"))
    await at_model(pilot, app)
    await pilot.press("enter")
    await until(pilot, lambda: app.setup.step is SetupStep.THEME)


async def test_a_theme_is_seen_as_it_is_marked_and_kept_with_enter(home: Path, server: ModelServer) -> None:
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await at_themes(pilot, app, server)
        names = app.rows()
        assert names == sorted(app.available_themes)
        chosen = names[names.index(app.theme) + 1]
        await pilot.press("down")
        await until(pilot, lambda: app.theme == chosen)
        await pilot.press("enter")
        await until(pilot, lambda: app.setup.step is SetupStep.DONE)
        assert "Ready." in app.text("#words")

    assert tomllib.loads((home / "config.toml").read_text())["ui"]["theme"] == chosen


async def test_escape_brings_the_theme_back_that_was(home: Path, server: ModelServer) -> None:
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await at_themes(pilot, app, server)
        before = app.theme
        await pilot.press("up")
        await until(pilot, lambda: app.theme != before)
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == before

    assert "ui" not in tomllib.loads((home / "config.toml").read_text())


async def test_settings_that_are_wrong_are_told(home: Path) -> None:
    (home / "config.toml").write_text("active_model = 7\n")
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "active_model" in app.text("#problem"))
        await pilot.press("escape")
        await until(pilot, lambda: app.results == [False])


async def test_names_from_outside_are_shown_as_they_are_and_move_nothing(home: Path, server: ModelServer) -> None:
    server.models = ("[red]large[/]", "sm\x1b[2Jall", *(f"model-{number}" for number in range(300)))
    app = SetupApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await begin(pilot, app)
        await pilot.press("enter")
        await give_key(pilot, app, KEY)
        await until(pilot, lambda: len(app.rows()) == 302)
        keys = app.setup.query_one("#keys")

        assert {"[red]large[/]", "small"} < set(app.rows())
        assert keys.region.bottom < SIZE[1]
