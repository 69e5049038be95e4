"""Slash commands about what the agent works with: tools, servers, skills, hooks, memory and instructions."""

from __future__ import annotations

from functools import partial

from anyio import to_thread

from ipc.sink import MemorySink
from vibe.app.inspect.permissions import PermissionCheck, given_arguments
from vibe.core.guidance import memory_store
from vibe.core.instructions.memory import MAX_TEXT, MemoryScope, MemoryStore
from vibe.core.tools.errors import NoSuchToolError, ToolArgumentsError
from vibe.core.tools.gate import Gate
from vibe.core.tools.permissions import PermissionDecision
from vibe.front.listings import NO_SERVERS, NO_SKILLS, decision_line, memory_lines, server_lines, skill_line, tool_lines
from vibe.front.slash.command import Talk, TypedCommand
from vibe.front.slash.wording import setup_line
from vibe.system.errors import UsageError, error_as
from vibe.system.own_places import user_home_of
from vibe.system.plain_text import one_line

COMMAND_LENGTH = 200
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
USAGE = "/memory [add TEXT | forget ID]"
YES_LENGTH = 200


async def run_hooks(talk: Talk, _typed: TypedCommand) -> None:
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


async def run_init(talk: Talk, typed: TypedCommand) -> None:
    """Send the prompt that writes AGENTS.md, followed by the person's own wishes."""
    prompt = PROMPT.format(folder=talk.conversation.setup.opening.workdir)
    await talk.send(f"{prompt}\n\nAbove all: {typed.rest}" if typed.rest else prompt)


async def run_mcp(talk: Talk, _typed: TypedCommand) -> None:
    """List the MCP servers and their tools."""
    states = talk.conversation.servers.states()
    talk.say("\n".join(line for server in states for line in server_lines(server)) or NO_SERVERS)


async def run_memory(talk: Talk, typed: TypedCommand) -> None:
    """List the notes, add one for this project, or forget one."""
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


def _store(talk: Talk) -> MemoryStore:
    setup, host = talk.conversation.setup, talk.runtime.host
    return memory_store(host.home, setup.opening.workdir, user_home_of(setup.engine.environ))


async def run_permissions(talk: Talk, typed: TypedCommand) -> None:
    """Say which calls run unasked, or what would happen to one call."""
    tool, _, arguments = typed.rest.partition(" ")
    if tool and not arguments.strip():
        raise UsageError("/permissions TOOL ARGUMENTS: say the call, such as /permissions bash ls -l")
    if tool:
        talk.say(decision_line(await to_thread.run_sync(_decided, talk, tool, arguments.strip())))
        return
    talk.say(setup_line(talk))
    yeses = sorted(talk.conversation.approvals.remembered)
    talk.say("allowed by you:" if yeses else "nothing is allowed beyond one call")
    for yes in yeses:
        talk.say(f"  {one_line(yes, YES_LENGTH)}")


def _decided(talk: Talk, tool: str, arguments: str) -> PermissionDecision:
    conversation = talk.conversation
    setup = conversation.setup
    workspace = setup.workspace(conversation.session, talk.seat.files)
    gate = Gate(workspace, conversation.approvals, MemorySink(), setup.engine.confinement)
    with error_as((NoSuchToolError, ToolArgumentsError), lambda error: UsageError(f"/permissions {tool}: {error}")):
        return PermissionCheck(setup.tools.get(tool), gate).decide(given_arguments(arguments))


async def run_skills(talk: Talk, typed: TypedCommand) -> None:
    """List the skills, or say where one comes from."""
    skills = talk.conversation.setup.engine.guidance.skills
    if typed.rest:
        skill = skills.get(typed.rest)
        talk.say(f"{skill_line(skill)}\nfrom {skill.path}")
        return
    talk.say("\n".join(skill_line(skill) for skill in skills.available.values()) or NO_SKILLS)


async def run_tools(talk: Talk, _typed: TypedCommand) -> None:
    """List the tools and their permissions."""
    talk.say("\n".join(tool_lines(talk.conversation.setup.tools)))
