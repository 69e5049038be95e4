"""``/memory``: the notes that later conversations are given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread

from vibe.cli.render.event_text import one_line
from vibe.cli.render.listings import memory_lines
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import words
from vibe.core.config.paths import user_home_of
from vibe.core.errors import UsageError
from vibe.core.guidance_loader import memory_store
from vibe.core.instructions.memory import MAX_TEXT, MemoryScope, MemoryStore

USAGE = "/memory [add TEXT | forget ID]"


async def run(talk: Talk, typed: Typed) -> None:
    """List the notes, keep one about this project, or forget one."""
    store = await to_thread.run_sync(_store, talk)
    word, _, rest = typed.rest.partition(" ")
    match word:
        case "":
            lines = await to_thread.run_sync(memory_lines, store)
            talk.say("\n".join(lines) or "no notes yet: /memory add TEXT adds one")
        case "add" if rest.strip():
            entry = await to_thread.run_sync(partial(store.add, rest, MemoryScope.PROJECT, by="user"))
            talk.say(f"kept as {entry.id}; new conversations will know it")
        case "forget" if rest.strip():
            _, entry = await to_thread.run_sync(store.remove, rest.strip())
            talk.say(one_line(f"forgotten: {entry.text}", MAX_TEXT + 20))
        case _:
            raise UsageError(f"{USAGE}: not {typed.rest!r}")


async def choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the words, and behind ``forget`` the ids."""
    if not text.startswith("forget "):
        return () if " " in text else words("add", "forget")
    store = await to_thread.run_sync(_store, talk)
    entries = await to_thread.run_sync(lambda: [entry for scope in MemoryScope for entry in store.entries(scope)])
    return [ArgumentChoice(entry.id, entry.text) for entry in entries]


def _store(talk: Talk) -> MemoryStore:
    setup, host = talk.conversation.setup, talk.runtime.host
    return memory_store(host.home, setup.opening.workdir, user_home_of(setup.engine.environ))
