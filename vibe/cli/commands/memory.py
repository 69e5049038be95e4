"""``vibe memory``: what later conversations are told, about this project or about everything."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import msgspec

from vibe.cli.arguments import existing_folder
from vibe.cli.describe import one_line
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.core.config.paths import user_home_of
from vibe.core.guidance_loader import memory_store
from vibe.core.memory import MAX_TEXT, MemoryScope, MemoryStore


def add_arguments(subparsers: Any) -> None:
    """Add ``memory`` to the command line."""
    parser = subparsers.add_parser("memory", help="see and change what later conversations are told")
    commands = parser.add_subparsers(dest="memory_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list what is kept about this project and about everything")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    add = commands.add_parser("add", help="keep a fact")
    add.add_argument("text", nargs="+", metavar="TEXT", help="the fact, in a sentence")
    add.add_argument("--global", dest="everywhere", action="store_true", help="about everything, not this project")
    remove = commands.add_parser("remove", help="forget a fact")
    remove.add_argument("id", metavar="ID", help="its id, from the list")
    for command in (listing, add, remove):
        command.add_argument("--workdir", metavar="DIR", help="the project, instead of the current directory's")


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
        env.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    if not entries:
        env.stdout.write("nothing is remembered yet: `vibe memory add TEXT` adds a fact\n")
    for scope, entry in entries:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.created))
        text = one_line(entry.text, MAX_TEXT)
        env.stdout.write(f"{one_line(entry.id)}  {scope:<7}  {day}  {one_line(entry.by):<5}  {text}\n")
