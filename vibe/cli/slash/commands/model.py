"""``/model``: the model that answers, and how long it thinks."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.app.conversation.opening import AgentChange
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import setup_line, words
from vibe.core.config.models import Thinking
from vibe.core.errors import UsageError


async def run(talk: Talk, typed: Typed) -> None:
    """List the models, or go on with another, or with another thinking."""
    setup = talk.conversation.setup
    if not typed.rest:
        for one in setup.engine.config.models:
            talk.say(f"{'*' if one.key == setup.model.key else ' '} {one.key}")
        return
    given = typed.rest.split()
    levels = [word for word in given if word in list(Thinking)]
    aliases = [word for word in given if word not in levels]
    if len(levels) > 1 or len(aliases) > 1:
        raise UsageError("/model takes one model and one level of thinking: /model ALIAS high")
    thinking = Thinking(levels[0]) if levels else None
    await talk.conversation.configure(AgentChange(model=aliases[0] if aliases else None, thinking=thinking))
    talk.say(setup_line(talk))


async def choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the models, and behind one the levels of thinking."""
    models = () if " " in text else (one.key for one in talk.conversation.setup.engine.config.models)
    return words(*models, *Thinking)
