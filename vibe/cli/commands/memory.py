"""``vibe memory``: manages notes for later conversations, about this project or about everything."""

from __future__ import annotations

import msgspec

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.guidance import memory_store
from vibe.core.instructions.memory import MAX_TEXT, MemoryScope, MemoryStore
from vibe.front.listings import memory_lines
from vibe.system.own_places import user_home_of
from vibe.system.plain_text import one_line


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the entries."""
    store = _store(args, env)
    entries = [(scope, entry) for scope in MemoryScope for entry in store.entries(scope)]
    document = [{"scope": scope.value, **msgspec.to_builtins(entry)} for scope, entry in entries]
    env.answer(args, document, memory_lines(store) or ["no facts yet: add one with `vibe memory add TEXT`"])


def run_add(args: Arguments, env: CliEnvironment) -> None:
    """Add an entry."""
    scope = MemoryScope.GLOBAL if args.everywhere else MemoryScope.PROJECT
    entry = _store(args, env).add(" ".join(args.text), scope, by="user")
    env.stdout.write(f"kept as {entry.id} ({scope})\n")


def run_remove(args: Arguments, env: CliEnvironment) -> None:
    """Remove an entry."""
    _, entry = _store(args, env).remove(args.id)
    env.stdout.write(one_line(f"forgotten: {entry.text}", MAX_TEXT + 20) + "\n")


def _store(args: Arguments, env: CliEnvironment) -> MemoryStore:
    return memory_store(env.home, args.workdir, user_home_of(env.environ))
