"""``/config``: the settings here, and their origins."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from vibe.app.engine.settings import Settings
from vibe.cli.render.listings import setting_line
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.core.errors import UsageError


async def run(talk: Talk, typed: Typed) -> None:
    """Show all settings or some, or change one in the user's file."""
    settings = _settings(talk)
    key, _, word = typed.rest.partition(" ")
    if key and word:
        path = await to_thread.run_sync(_set, settings, key, word.strip())
        talk.say(f"{key} is set in {path}; /reload applies it")
        return
    shown = await to_thread.run_sync(lambda: settings.get(key) if key else tuple(settings.shown()))
    talk.say("\n".join(setting_line(setting, origin=True) for setting in shown))


async def choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the keys."""
    if " " in text:
        return ()
    shown = await to_thread.run_sync(lambda: tuple(_settings(talk).shown()))
    return [ArgumentChoice(setting.key, setting.origin) for setting in shown]


def _settings(talk: Talk) -> Settings:
    opening = talk.conversation.setup.opening
    return Settings(talk.runtime.host, opening.workdir, trust=opening.trust)


def _set(settings: Settings, key: str, word: str) -> str:
    value = settings.value_of(key, word)
    try:
        settings.writer(project=False, key=key).set(key, value)
    except OSError as error:
        raise UsageError(f"/config {key}: the file can't be written ({error.strerror})") from error
    return settings.label(settings.path(project=False))
