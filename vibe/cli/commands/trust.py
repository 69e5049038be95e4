"""``vibe trust``: the folders that may bring settings, instructions, skills, hooks and tools of their own."""

from __future__ import annotations

import argparse
from pathlib import Path

from vibe.cli.arguments import existing_folder, utf8_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.core.config.paths import project_root
from vibe.core.config.trust import TrustStore
from vibe.front.event_text import one_line
from vibe.system.own_places import user_home_of


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Change or show the list."""
    home = user_home_of(env.environ)
    file = TrustStore(env.home, user_home=home)
    if args.trust_command == "list":
        _list(file, args.output, env)
        return ExitCode.DONE
    folder = _folder(args, env, home)
    if args.trust_command == "add":
        changed = file.add(folder)
        said = f"{folder} is trusted now" if changed else f"{folder} was already trusted"
    else:
        changed = file.remove(folder)
        said = f"{folder} is no longer trusted" if changed else f"{folder} was not trusted"
    env.stdout.write(one_line(said, 1_000) + "\n")
    return ExitCode.DONE


def _folder(args: argparse.Namespace, env: CliEnvironment, home: Path) -> Path:
    """The folder that was named, which may be gone if it is to be removed; else the project's."""
    if args.dir is None:
        return utf8_folder(project_root(env.cwd, home))
    if args.trust_command == "remove":
        return utf8_folder((env.cwd / Path(args.dir).expanduser()).resolve())
    return existing_folder("vibe trust add", args.dir, env.cwd)


def _list(file: TrustStore, output: str, env: CliEnvironment) -> None:
    trusted, untrusted = file.folders()
    if output == "json":
        env.write_json({"trusted": trusted, "untrusted": untrusted})
        return
    if not trusted and not untrusted:
        env.stdout.write("no trusted folders: trust this project with `vibe trust add`\n")
    for folder in trusted:
        env.stdout.write(f"trusted    {one_line(folder, 1_000)}" + "\n")
    for folder in untrusted:
        env.stdout.write(f"untrusted  {one_line(folder, 1_000)}" + "\n")
