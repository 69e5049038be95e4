"""``/skills``: the skills of the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.cli.render.listings import NO_SKILLS, skill_line
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed


async def run(talk: Talk, typed: Typed) -> None:
    """List the skills, or tell where one comes from."""
    skills = talk.conversation.setup.engine.guidance.skills
    if typed.rest:
        skill = skills.get(typed.rest)
        talk.say(f"{skill_line(skill)}\nfrom {skill.path}")
        return
    talk.say("\n".join(skill_line(skill) for skill in skills.available.values()) or NO_SKILLS)


async def choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the skills."""
    skills = talk.conversation.setup.engine.guidance.skills.available.values()
    return [ArgumentChoice(skill.name, skill.description) for skill in skills]
