"""Guidance: everything the user and a trusted project teach the agents of one run, read once at its start.

That is prompts, instructions, skills, slash commands, hooks and memory. In a project only trusted folders are read.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio.to_thread
from msgspec import Struct, ValidationError, convert, field, structs

from ipc.sink import EventSink
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.paths import PROJECT_DIRECTORY, VibePaths, project_lineage, shown
from vibe.core.hooks.runner import HOOKS_FILE, Hook, HookFile, HookRunner, load_hooks
from vibe.core.instructions.memory import AgentMemory, MemoryFileError, MemoryStore
from vibe.core.instructions.project_context import GitView, ProjectContext, project_context
from vibe.core.instructions.project_docs import NestedDocs, ProjectDocs, Trusts
from vibe.core.instructions.system_prompt import COMMIT_SIGNATURE, PromptLibrary, filled, subagents_section
from vibe.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from vibe.core.skills.command_files import CommandFiles
from vibe.core.skills.manager import INVOKED, LOADED, AgentSkills, SkillManager
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.manager import ToolManager
from vibe.shell.errors import CommandStartError
from vibe.shell.process.port import CommandResult
from vibe.shell.process.runner import child_environ, run_command
from vibe.shell.sandbox.temporary import brief_folder
from vibe.system.errors import os_error_as
from vibe.system.programs import find_shell

PROJECT_VARIABLE = "VIBE_PROJECT_DIR"
"""The environment variable that tells a hook its project's folder: the one whose ``.vibe`` defines the hook.

For one of the user's own hooks it is the folder the agent works in."""

_WITH_INPUT = ("/bin/sh", "-c", 'exec /bin/sh -c "$1" <"$2"', "hook")
"""Runs a hook's command with a file as its standard input.

A pipe would block the writer if the hook does not read its input."""


class ShellHooks:
    """Runs hooks in ``cwd``, an agent's root, with ``environ`` minus its secrets."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        self._cwd = cwd
        self._environ = child_environ(environ, by_vibe=True)

    async def run(self, hook: Hook, payload: str) -> CommandResult:
        """Run one hook; see ``HookCommands``."""
        environ = {**self._environ, PROJECT_VARIABLE: str(hook.project_dir or self._cwd)}
        kept = ExitStack()
        try:
            file = await anyio.to_thread.run_sync(self._write_payload, payload, kept)
            command = [*_WITH_INPUT, hook.command, str(file)]
            return await run_command(command, cwd=self._cwd, environ=environ, timeout=hook.timeout_seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(kept.close)

    def _write_payload(self, payload: str, kept: ExitStack) -> Path:
        """Write the payload to a file that only the user can read; it goes when ``kept`` closes or the process dies."""
        with os_error_as(lambda error: CommandStartError(self._cwd, f"its input can't be written: {error.strerror}")):
            file = kept.enter_context(brief_folder()) / "payload.json"
            file.write_text(payload, encoding="utf-8", errors="replace")
        return file


SKILL_TOOL = "skill"
MEMORY_TOOL = "memory"


class AgentPrompt(Struct, frozen=True, kw_only=True):
    """The part of a system prompt that differs between agents. A ``lean`` prompt leaves out files and git."""

    workspace: Path
    model: str
    tool_prompts: Sequence[str] = ()
    role: str = ""
    subagents: Mapping[str, str] = field(default_factory=dict[str, str])
    lean: bool = False


class Guidance(Struct, frozen=True, kw_only=True):
    """Everything found for a workspace; the default is empty. ``warnings`` are for the user.

    ``context``, ``memory_section`` and ``docs`` stay as they were at the start of the run, so that prompts don't
    change. ``git`` is what the context was made from, or None if git was not asked or had no answer.
    ``commit_signature``, ``model_info`` and ``prompt_detail`` choose the layers of a system prompt. ``session_id`` is
    for hooks. ``parent_skills`` are the skills of the agent that starts others, which restrict those, too.
    """

    workdir: Path | None = None
    commit_signature: bool = False
    model_info: bool = False
    prompt_detail: bool = True
    instructions: str = ""
    library: PromptLibrary = field(default_factory=PromptLibrary)
    shell_path: str = ""
    skills: SkillManager = field(default_factory=SkillManager)
    commands: CommandFiles = field(default_factory=CommandFiles)
    hooks: tuple[Hook, ...] = ()
    docs: ProjectDocs = field(default_factory=ProjectDocs)
    trusts: Trusts = lambda _folder: False
    memory: MemoryStore | None = None
    memory_section: str = ""
    context: str = ""
    git: GitView | None = None
    warnings: tuple[str, ...] = ()
    session_id: str = ""
    parent_skills: AgentSkills | None = None

    def expand_command(self, prompt: str) -> str:
        """Return the prompt a slash command expands to, else the prompt itself; blocks.

        The name of a skill is left as it is: skills are started later.

        Raises:
            UsageError: there is no such command, or its file can't be used.
        """
        return self.commands.expanded(prompt, self.skills.commands)

    def tools(self, tools: ToolManager) -> ToolManager:
        """Return the tools without the memory and skill tools if there is no memory or no skill."""
        idle = [*((MEMORY_TOOL,) if self.memory is None else ()), *(() if self.skills.available else (SKILL_TOOL,))]
        unneeded = [name for name in idle if name in tools.available]
        return tools.filtered(None, unneeded) if unneeded else tools

    def for_agent(
        self,
        root: Path,
        sink: EventSink,
        environ: Mapping[str, str],
        *,
        subagent: Mapping[str, Any] | None = None,
        conversation: Sequence[Message] = (),
    ) -> CallGuidance:
        """Return the guidance for one agent that works in ``root``.

        ``subagent`` describes it to hooks, and is None for the agent a person talks to. A resumed agent is restricted
        by the skills it had loaded in its ``conversation``.
        """
        skills = AgentSkills(self.skills, self.parent_skills)
        skills.restore(loaded_skills(conversation))
        about = {"session_id": self.session_id, "cwd": str(root), "subagent": subagent}
        return CallGuidance(
            skills=skills,
            memory=AgentMemory(self.memory, sink) if self.memory is not None else None,
            hooks=HookRunner(self.hooks, ShellHooks(root, environ), sink, about) if self.hooks else None,
            docs=NestedDocs(root=root, origin=self.workdir, trusts=self.trusts) if self.workdir else None,
        )

    def for_subagents(self, agent: CallGuidance) -> Guidance:
        """Return the guidance for the subagents of an agent."""
        return structs.replace(self, parent_skills=agent.skills)

    def base_prompt(self, prompt_id: str | None, default: str) -> str:
        """Return the prompt with this id, or ``default`` if no id is given; reads files.

        Raises:
            UsageError: there is no such prompt, or it can't be read.
        """
        return default if prompt_id is None else self.library.load(prompt_id)

    def system_prompt(self, base: str, prompt: AgentPrompt) -> str:
        """Return the system prompt of one agent: layers in a fixed order, without the empty ones.

        Its bytes stay the same for a whole conversation, so that providers can cache it.
        """
        shell, model = self.shell_path, prompt.model if self.model_info else ""
        facts = [f"Workspace: {prompt.workspace}"]
        if model:
            facts.append(f"Your model: {model}")
        if self.prompt_detail:
            facts.append(f"System: {platform.system()}")
            facts.extend([f"Shell: {shell}"] if shell else [])
        detail = (*prompt.tool_prompts, self.skills.prompt_section(), subagents_section(prompt.subagents))
        sections = [
            filled(base, {"config.active_model": model, "platform": platform.system(), "shell": shell}),
            "\n\n".join(text for text in (prompt.role, self.instructions) if text.strip()),
            COMMIT_SIGNATURE if self.commit_signature else "",
            "\n".join(facts),
            *(detail if self.prompt_detail else ()),
            "" if prompt.lean else self.context,
            self.docs.prompt_section(),
            self.memory_section,
        ]
        return "\n\n".join(section.strip() for section in sections if section.strip()) + "\n"


def loaded_skills(conversation: Iterable[Message]) -> Iterator[str]:
    """Yield the names of the skills that an agent loaded, or was started with, in a conversation."""
    asked: dict[str, str] = {}
    for message in conversation:
        match message:
            case UserMessage() if LOADED in message.content:
                yield from _names(message.content.partition(LOADED)[2].partition("\n")[0])
            case UserMessage() if started := re.match(INVOKED.format(name=r"(['\"])(.+?)\1"), message.content):
                yield started[2]
            case AssistantMessage():
                asked |= {call.id: call.arguments for call in message.tool_calls if call.name == SKILL_TOOL}
            case ToolMessage() if message.status == "ok" and message.tool_call_id in asked:
                yield str(json.loads(asked[message.tool_call_id]).get("name", ""))
            case _:
                pass


def _names(line: str) -> list[str]:
    """Return the names in a reminder of loaded skills; none if the line only looks like a reminder."""
    with suppress(ValueError, ValidationError):
        return convert(json.loads(line), list[str])
    return []


AGENTS_DIRECTORY = ".agents"
SKILLS = "skills"
COMMANDS = "commands"
MEMORY = "memory"
OTHER_AGENTS_FILES = MappingProxyType({
    "rules": (".cursor/rules", ".cursorrules", ".github/copilot-instructions.md", "GEMINI.md", ".windsurfrules",
              ".clinerules", ".claude/CLAUDE.md"),
    "skills": (".claude/skills",),
    "commands": (".claude/commands",),
    "servers": (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"),
})  # fmt: skip
"""Files and folders that other coding agents read, by kind."""
TAKE_OVER_HINTS = MappingProxyType({
    "rules": "put rules into AGENTS.md",
    "skills": 'skill_paths = ["{name}"] reads the skills',
    "commands": "copy {name} to .vibe/commands",
    "servers": "`vibe mcp import {name}` adds the servers",
})
"""Hints on how to use those files here, by kind."""
PROMPTS = "prompts"


def load_guidance(loaded: LoadedConfig, nested: Sequence[Path] = (), *, snapshot: bool = False) -> Guidance:
    """Read all guidance for a workspace; blocks, and runs git.

    ``nested`` are trusted folders below the workspace, whose skills are used, too. With ``snapshot`` the prompts
    describe the workspace's files and git state.

    Raises:
        UsageError: a hooks file or the chosen system prompt is wrong.
    """
    config, trusts = loaded.config, loaded.trusts
    project = [] if loaded.project_dir is None else [loaded.project_dir / PROMPTS]
    library = PromptLibrary(folders=[*project, VibePaths(loaded.home).prompts])
    commands = [folder / PROJECT_DIRECTORY / COMMANDS for folder in loaded.lineage if trusts(folder)]
    docs = ProjectDocs.load(loaded.home, loaded.lineage, trusts)
    skills = load_skills(loaded, nested)
    memory = memory_store(loaded.home, loaded.workdir, loaded.user_home)
    memory_section, memory_warning = _memory_section(memory)
    hook_files = list(_hook_files(loaded))
    context = project_context(loaded, library) if snapshot and config.include_project_context else ProjectContext()
    unused = () if config.enable_experimental_hooks else _hooks_off(hook_files)
    return Guidance(
        workdir=loaded.workdir,
        commit_signature=config.include_commit_signature,
        model_info=config.include_model_info,
        prompt_detail=config.include_prompt_detail,
        instructions=config.instructions,
        library=library,
        shell_path=find_shell(),
        skills=skills,
        commands=CommandFiles(dict.fromkeys([*commands, loaded.home / COMMANDS])),
        hooks=load_hooks(hook_files) if config.enable_experimental_hooks else (),
        docs=docs,
        trusts=trusts,
        memory=memory,
        memory_section=memory_section,
        context=context.section,
        git=context.git,
        warnings=(*skills.warnings, *docs.warnings, *memory_warning, *unused, *_for_other_agents(loaded, skills, docs)),
    )


def _for_other_agents(loaded: LoadedConfig, skills: SkillManager, docs: ProjectDocs) -> tuple[str, ...]:
    """Return a warning about files for other agents, for each kind of which this project has none of our own."""
    own = {
        "skills": bool(skills.available),
        "commands": any(os.path.isdir(folder / PROJECT_DIRECTORY / COMMANDS) for folder in loaded.lineage),
        "servers": bool(loaded.config.mcp_servers),
        "rules": any(doc.path.parent in loaded.lineage for doc in docs.docs),
    }
    found = [(kind, name) for kind, names in OTHER_AGENTS_FILES.items() if not own[kind] for name in names]
    left = [(kind, name) for kind, name in found if any(os.path.exists(folder / name) for folder in loaded.lineage)]
    if not left:
        return ()
    ways = [TAKE_OVER_HINTS[kind].format(name=name) for kind, name in dict(reversed(left)).items()]
    return (f"not read here: {', '.join(name for _, name in left)}; {'; '.join(reversed(ways))}",)


def _hooks_off(files: Sequence[HookFile]) -> tuple[str, ...]:
    """Return a warning if there are hooks files although hooks are off."""
    labels = " and ".join(file.label for file in files if os.path.isfile(file.path))
    return (f"hooks are off, {labels} is not used: set enable_experimental_hooks = true",) if labels else ()


def load_skills(loaded: LoadedConfig, nested: Sequence[Path] = ()) -> SkillManager:
    """Load the skills of the configured folders, the trusted project and the user.

    Raises:
        ConfigError: a pattern is not valid.
    """
    trusts = loaded.trusts
    own = loaded.home.resolve()
    project = [
        folder / name / SKILLS
        for folder in (*loaded.lineage, *nested)
        if trusts(folder)
        for name in (PROJECT_DIRECTORY, AGENTS_DIRECTORY)
        if (folder / name).resolve() != own
    ]
    config, user = loaded.config, (loaded.home / SKILLS, loaded.user_home / AGENTS_DIRECTORY / SKILLS)
    configured = [*map(Path, config.skill_paths)]
    return SkillManager((*project, *user), configured, config.enabled_skills, config.disabled_skills)


def memory_store(home: Path, workdir: Path, user_home: Path) -> MemoryStore:
    """Return the memory of the project that contains ``workdir``."""
    lineage = project_lineage(workdir, user_home)
    return MemoryStore(folder=home / MEMORY, project=lineage[-1] if lineage else workdir.resolve())


def _hook_files(loaded: LoadedConfig) -> Iterator[HookFile]:
    """Yield the places of the user's hooks file and, in a trusted project, of the project's."""
    user = loaded.home / HOOKS_FILE
    yield HookFile(path=user, label=shown(user, loaded.user_home))
    if loaded.project_dir is not None:
        path = loaded.project_dir / HOOKS_FILE
        label = shown(path, loaded.user_home)
        yield HookFile(path=path, label=label, project_dir=loaded.project_dir.parent)


def _memory_section(memory: MemoryStore) -> tuple[str, tuple[str, ...]]:
    """Return the prompt's section on the memory, and warnings. A damaged file disables the memory, not the run."""
    try:
        return memory.prompt_section(), ()
    except MemoryFileError as error:
        return "", (str(error),)
