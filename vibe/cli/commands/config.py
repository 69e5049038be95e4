"""``vibe config``: shows settings and their origin, and changes one without touching the rest of the file."""

from __future__ import annotations

import json
from contextlib import suppress

from vibe.app.engine.settings import Settings
from vibe.cli.editor import edited
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.config.schema import parse_key, written
from vibe.front.listings import LONGEST, setting_line
from vibe.system.errors import ConfigError, VibeError
from vibe.system.plain_text import one_line, plain


def run_show(args: Arguments, env: CliEnvironment) -> None:
    """Print all settings."""
    listed = list(_settings(args, env).shown())
    document = {s.key: {"value": s.value, "origin": s.origin} if args.origin else s.value for s in listed}
    env.answer(args, document, (setting_line(setting, origin=args.origin) for setting in listed))


def run_get(args: Arguments, env: CliEnvironment) -> None:
    """Print one value as it is, for scripts; a table is printed as in ``show``."""
    found = _settings(args, env).get(args.key)
    if [setting.key for setting in found] != [written(parse_key(args.key))]:
        lines = (setting_line(setting, origin=False) for setting in found)
        env.answer(args, {setting.key: setting.value for setting in found}, lines)
        return
    value = found[0].value
    text = plain(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    env.answer(args, value, [text])


def run_path(args: Arguments, env: CliEnvironment) -> None:
    """Print the path of the settings file."""
    env.stdout.write(f"{_settings(args, env).path(project=args.project)}\n")


def run_set(args: Arguments, env: CliEnvironment) -> None:
    """Set one key, and warn if the new value has no effect here because something else takes precedence."""
    settings = _settings(args, env)
    value = settings.value_of(args.key, args.value)
    settings.writer(project=args.project, key=args.key).set(args.key, value)
    label = settings.label(settings.path(project=args.project))
    origin = settings.overruling(args.key, project=args.project)
    if origin and not args.key.startswith("tools."):
        unread = "this folder is not trusted, so it is not read; `vibe trust add` trusts it"
        why = unread if origin == "default" else f"{origin} also sets it, and takes precedence"
        env.stderr.write(f"vibe: {one_line(f'{label}: {args.key} is set, but has no effect here: {why}', LONGEST)}\n")
    with suppress(ConfigError):  # about other settings; every other command reports those
        env.warn(warning for warning in settings.load().warnings if f": {args.key}: " in warning)


def run_edit(args: Arguments, env: CliEnvironment) -> None:
    """Open the settings file in an editor. A result that is invalid or can't be saved is kept in a file of its own."""
    writer = _settings(args, env).writer(project=args.project)
    before = writer.text()
    after = edited(before, "config.toml", env)
    try:
        if after != before:
            writer.replace(after)
    except VibeError as error:
        draft = env.new_folder("vibe-config-") / "config.toml"
        draft.write_text(after, encoding="utf-8")
        error.args = (f"{error}\nnothing was changed; your text is in {draft}",)
        raise


def _settings(args: Arguments, env: CliEnvironment) -> Settings:
    return Settings(env, args.workdir, trust=getattr(args, "trust", False))
