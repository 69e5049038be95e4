"""``/init``: an AGENTS.md, written by the agent."""

from __future__ import annotations

from vibe.cli.slash.command import Talk, Typed

PROMPT = """Write AGENTS.md in {folder}: instructions for coding agents that work on this project.

First look around: the README, the files that say how the project is built and tested, its continuous integration, its
layout and a few of its modules. If there is an AGENTS.md, or rules for other agents (CLAUDE.md, .cursor/rules,
.github/copilot-instructions.md), keep what is right in them, correct the rest, and do not throw away what only people
can know.

Say, in at most 60 lines and without what every programmer knows:
- the commands to build, check and test, and how to run a single test
- where things are: the main folders and what belongs in each
- conventions that the code follows and a newcomer would miss
- what must not be done here

Write only what you have seen to be so. Change no other file."""


async def run(talk: Talk, typed: Typed) -> None:
    """Send the prompt, with the person's own wishes behind it."""
    prompt = PROMPT.format(folder=talk.conversation.setup.opening.workdir)
    await talk.send(f"{prompt}\n\nAbove all: {typed.rest}" if typed.rest else prompt)
