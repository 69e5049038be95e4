"""``/hooks``: the commands that run around tool calls and turns."""

from __future__ import annotations

from vibe.cli.render.event_text import one_line
from vibe.cli.slash.command import Talk, Typed

COMMAND_LENGTH = 200


async def run(talk: Talk, _typed: Typed) -> None:
    """List the hooks."""
    engine = talk.conversation.setup.engine
    if not engine.config.enable_experimental_hooks:
        talk.say("hooks are off: turn them on with /config enable_experimental_hooks true")
        return
    for hook in engine.guidance.hooks:
        whose = "user" if hook.project_dir is None else "project"
        talk.say(f"{one_line(hook.name)} {hook.event} ({whose}): {one_line(hook.command, COMMAND_LENGTH)}")
    if not engine.guidance.hooks:
        talk.say("no hooks: write them in hooks.toml in .vibe here, or in your own vibe folder")
