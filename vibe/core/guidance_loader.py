"""Loads what the user and a project teach; from a project only what lies in trusted folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from vibe.core.config.loader import LoadedConfig
from vibe.core.config.paths import PROJECT_DIRECTORY, VibePaths, project_lineage, shown
from vibe.core.guidance import Guidance
from vibe.core.hooks.runner import HOOKS_FILE, HookFile, load_hooks
from vibe.core.instructions.memory import MemoryFileError, MemoryStore
from vibe.core.instructions.project_context import ProjectContext, project_context
from vibe.core.instructions.project_docs import ProjectDocs
from vibe.core.instructions.system_prompt import PromptLibrary
from vibe.core.skills.command_files import CommandFiles
from vibe.core.skills.manager import SkillManager, SkillSources
from vibe.system.programs import find_shell

AGENTS_DIRECTORY = ".agents"
SKILLS = "skills"
COMMANDS = "commands"
MEMORY = "memory"
OF_OTHERS = MappingProxyType({
    "rules": (".cursor/rules", ".cursorrules", ".github/copilot-instructions.md", "GEMINI.md", ".windsurfrules",
              ".clinerules", ".claude/CLAUDE.md"),
    "skills": (".claude/skills",),
    "commands": (".claude/commands",),
    "servers": (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"),
})  # fmt: skip
"""Files and folders in which other agents look for things of a kind."""
TAKE_OVER = MappingProxyType({
    "rules": "put rules into AGENTS.md",
    "skills": 'skill_paths = ["{name}"] reads the skills',
    "commands": "copy {name} to .vibe/commands",
    "servers": "`vibe mcp import {name}` adds the servers",
})
PROMPTS = "prompts"


def load_guidance(loaded: LoadedConfig, nested: Sequence[Path] = (), *, snapshot: bool = False) -> Guidance:
    """Read everything; blocks, and asks git.

    ``nested`` are trusted folders below the workspace, whose skills are its own, too. ``snapshot``: the workspace's
    files and git are to be told.

    Raises:
        UsageError: a hooks file or the system prompt that was chosen is wrong.
    """
    config, trusts = loaded.config, loaded.trusts
    project = [] if loaded.project_dir is None else [loaded.project_dir / PROMPTS]
    library = PromptLibrary(folders=[*project, VibePaths(loaded.home).prompts])
    commands = [folder / PROJECT_DIRECTORY / COMMANDS for folder in loaded.lineage if trusts(folder)]
    docs = ProjectDocs.load(loaded.home, loaded.lineage, trusts)
    skills = load_skills(loaded, nested)
    memory = memory_store(loaded.home, loaded.workdir, loaded.user_home)
    memory_section, memory_warning = _remembered(memory)
    hook_files = _hook_files(loaded)
    context = project_context(loaded, library) if snapshot and config.include_project_context else ProjectContext()
    unused = () if config.enable_experimental_hooks else _unused(hook_files)
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
        warnings=(*skills.warnings, *docs.warnings, *memory_warning, *unused, *_of_others(loaded, skills, docs)),
    )


def _of_others(loaded: LoadedConfig, skills: SkillManager, docs: ProjectDocs) -> tuple[str, ...]:
    """Return a line on what other agents would read in this project, where there is nothing of that kind of our own."""
    own = {
        "skills": bool(skills.available),
        "commands": any((folder / PROJECT_DIRECTORY / COMMANDS).is_dir() for folder in loaded.lineage),
        "servers": bool(loaded.config.mcp_servers),
        "rules": any(doc.path.parent in loaded.lineage for doc in docs.docs),
    }
    found = [(kind, name) for kind, names in OF_OTHERS.items() if not own[kind] for name in names]
    left = [(kind, name) for kind, name in found if any((folder / name).exists() for folder in loaded.lineage)]
    if not left:
        return ()
    ways = [TAKE_OVER[kind].format(name=name) for kind, name in dict(reversed(left)).items()]
    return (f"not read here: {', '.join(name for _, name in left)}; {'; '.join(reversed(ways))}",)


def _unused(files: Sequence[HookFile]) -> tuple[str, ...]:
    """Return what to say where there are hooks and none may run."""
    labels = " and ".join(file.label for file in files if file.path.is_file())
    return (f"hooks are off, {labels} is not used: set enable_experimental_hooks = true",) if labels else ()


def load_skills(loaded: LoadedConfig, nested: Sequence[Path] = ()) -> SkillManager:
    """The skills of the configured folders, the trusted project and the user.

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
    sources = SkillSources(
        configured=tuple(map(Path, loaded.config.skill_paths)),
        project=tuple(project),
        user=(loaded.home / SKILLS, loaded.user_home / AGENTS_DIRECTORY / SKILLS),
        enabled=loaded.config.enabled_skills,
        disabled=loaded.config.disabled_skills,
    )
    return SkillManager(sources)


def memory_store(home: Path, workdir: Path, user_home: Path) -> MemoryStore:
    """The memory of the project around ``workdir``."""
    lineage = project_lineage(workdir, user_home)
    return MemoryStore(folder=home / MEMORY, project=lineage[-1] if lineage else workdir.resolve())


def _hook_files(loaded: LoadedConfig) -> list[HookFile]:
    user = loaded.home / HOOKS_FILE
    files = [HookFile(path=user, label=shown(user, loaded.user_home))]
    if loaded.project_dir is not None:
        path = loaded.project_dir / HOOKS_FILE
        label = shown(path, loaded.user_home)
        files.append(HookFile(path=path, label=label, project_dir=loaded.project_dir.parent))
    return files


def _remembered(memory: MemoryStore) -> tuple[str, tuple[str, ...]]:
    """Return what prompts tell of the memory; a damaged file costs the memory, not the run."""
    try:
        return memory.prompt_section(), ()
    except MemoryFileError as error:
        return "", (str(error),)
