"""``vibe config``: the settings, the origin of each, and changes that leave the rest of the file alone."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from vibe.app.engine.settings import Settings
from vibe.cli.arguments import existing_folder
from vibe.cli.editor import open_editor
from vibe.cli.environment import CliEnvironment
from vibe.front.event_text import one_line
from vibe.front.listings import LONGEST, setting_line
from vibe.system.errors import ConfigError, UsageError
from vibe.system.plain_text import plain


class RefusedEditError(UsageError):
    """The edited file is invalid; it is kept at ``kept``."""

    def __init__(self, error: ConfigError, kept: Path) -> None:
        super().__init__(f"{error}\nnothing was changed; your text is in {kept}")
        self.kept = kept


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Carry out ``vibe config ...``."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    settings = Settings(env.host, workdir, trust=getattr(args, "trust", False))
    if args.config_command == "show":
        _show(settings, args, env)
    elif args.config_command == "get":
        _get(settings, args, env)
    elif args.config_command == "path":
        env.stdout.write(f"{settings.path(project=args.project)}\n")
    elif args.config_command == "set":
        _set(settings, args, env)
    else:
        _edit(settings, args, env)
    return 0


def _show(settings: Settings, args: argparse.Namespace, env: CliEnvironment) -> None:
    listed = list(settings.shown())
    if args.output == "json":
        document = {s.key: {"value": s.value, "origin": s.origin} if args.origin else s.value for s in listed}
        env.write_json(document)
        return
    for setting in listed:
        env.stdout.write(setting_line(setting, origin=args.origin) + "\n")


def _get(settings: Settings, args: argparse.Namespace, env: CliEnvironment) -> None:
    """One value as it is, for scripts; a table as ``show`` has it."""
    found = settings.get(args.key)
    if args.output == "json":
        document = {setting.key: setting.value for setting in found}
        only = found[0].value if len(found) == 1 else document
        env.write_json(only)
    elif len(found) == 1 and isinstance(found[0].value, str):
        env.stdout.write(plain(found[0].value) + "\n")
    elif len(found) == 1:
        env.stdout.write(json.dumps(found[0].value, ensure_ascii=False) + "\n")
    else:
        env.stdout.write("".join(f"{setting_line(setting, origin=False)}\n" for setting in found))


def _set(settings: Settings, args: argparse.Namespace, env: CliEnvironment) -> None:
    value = settings.value_of(args.key, args.value)
    settings.writer(project=args.project, key=args.key).set(args.key, value)
    _tell_what_wins(settings, args, env)


def _tell_what_wins(settings: Settings, args: argparse.Namespace, env: CliEnvironment) -> None:
    """Say so where the new value has no effect here: something above the file sets the key too."""
    label = settings.label(settings.path(project=args.project))
    try:
        origin = settings.load().origins.get(args.key, "")
    except ConfigError:
        return  # what is wrong was wrong before, and every other command says it
    if not origin.startswith(label) and not args.key.startswith("tools."):
        why = (
            f"{origin} also sets it, and takes precedence"
            if origin != "default"
            else "this folder is not trusted, so it is not read"
        )
        env.stderr.write(f"vibe: {one_line(f'{label}: {args.key} is set, but has no effect here: {why}', LONGEST)}\n")


def _edit(settings: Settings, args: argparse.Namespace, env: CliEnvironment) -> None:
    writer = settings.writer(project=args.project)
    before = writer.text()
    folder = Path(tempfile.mkdtemp(prefix="vibe-config-", dir=env.environ.get("TMPDIR")))
    draft = folder / "config.toml"
    draft.write_text(before, encoding="utf-8")
    open_editor(draft, env)
    after = draft.read_text(encoding="utf-8", errors="replace")
    try:
        if after != before:
            writer.replace(after)
    except ConfigError as error:
        raise RefusedEditError(error, draft) from error
    draft.unlink()
    folder.rmdir()
