"""``vibe trust``: manages the folders that may bring settings, instructions, skills, hooks and tools of their own."""

from __future__ import annotations

from pathlib import Path

from vibe.app.engine.host import existing_folder, utf8_folder
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.config.paths import nested_folders, project_root
from vibe.core.config.trust import TrustStore, powers
from vibe.system.own_places import user_home_of
from vibe.system.plain_text import one_line


def run_add(args: Arguments, env: CliEnvironment) -> None:
    """Trust a folder."""
    folder = existing_folder("DIR", args.dir, env.cwd) if args.dir is not None else _project(env)
    changed = _store(env).add(folder)
    said = f"{folder} is trusted now" if changed else f"{folder} was already trusted"
    taken = powers((folder, *nested_folders(folder, lambda _: True)), user_home_of(env.environ))
    env.write_lines(one_line(line, 1_000) for line in (said, *(f"with its settings, {power}" for power in taken)))


def run_remove(args: Arguments, env: CliEnvironment) -> None:
    """Stop trusting a folder, which may no longer exist."""
    folder = _project(env) if args.dir is None else utf8_folder(env.path(args.dir).resolve())
    changed = _store(env).remove(folder)
    env.write_lines([one_line(f"{folder} is no longer trusted" if changed else f"{folder} was not trusted", 1_000)])


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the trusted and untrusted folders."""
    trusted, untrusted = _store(env).folders()
    lines = [f"trusted    {one_line(folder, 1_000)}" for folder in trusted]
    lines += [f"untrusted  {one_line(folder, 1_000)}" for folder in untrusted]
    document = {"trusted": trusted, "untrusted": untrusted}
    env.answer(args, document, lines or ["no trusted folders: trust this project with `vibe trust add`"])


def _store(env: CliEnvironment) -> TrustStore:
    return TrustStore(env.home, user_home=user_home_of(env.environ))


def _project(env: CliEnvironment) -> Path:
    return project_root(existing_folder("DIR", None, env.cwd), user_home_of(env.environ))
