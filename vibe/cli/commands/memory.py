"""``vibe memory``: notes that later conversations are given, about this project or about everything."""

from __future__ import annotations

import argparse

import msgspec

from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.core.guidance_loader import memory_store
from vibe.core.instructions.memory import MAX_TEXT, MemoryScope, MemoryStore
from vibe.front.event_text import one_line
from vibe.front.listings import memory_lines
from vibe.system.own_places import user_home_of


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Show or change the entries."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    store = memory_store(env.home, workdir, user_home_of(env.environ))
    if args.memory_command == "list":
        _list(store, args.output, env)
    elif args.memory_command == "add":
        scope = MemoryScope.GLOBAL if args.everywhere else MemoryScope.PROJECT
        entry = store.add(" ".join(args.text), scope, by="user")
        env.stdout.write(f"kept as {entry.id} ({scope})\n")
    else:
        _, entry = store.remove(args.id)
        env.stdout.write(one_line(f"forgotten: {entry.text}", MAX_TEXT + 20) + "\n")
    return ExitCode.DONE


def _list(store: MemoryStore, output: str, env: CliEnvironment) -> None:
    entries = [(scope, entry) for scope in MemoryScope for entry in store.entries(scope)]
    if output == "json":
        document = [{"scope": scope.value, **msgspec.to_builtins(entry)} for scope, entry in entries]
        env.write_json(document)
        return
    if not entries:
        env.stdout.write("no facts yet: add one with `vibe memory add TEXT`\n")
    env.stdout.write("".join(f"{line}\n" for line in memory_lines(store)))
