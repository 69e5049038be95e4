"""Loads what the user and a project teach; from a project only what lies in trusted folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from vibe.core.config.paths import PROJECT_DIRECTORY, VibePaths, project_lineage, shown
from vibe.core.guidance import Guidance
from vibe.core.hooks.runner import HOOKS_FILE, HookFile, load_hooks
from vibe.core.instructions.memory import MemoryFileError, MemoryStore
from vibe.core.instructions.project_context import GuidanceRequest, project_context
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


def load_guidance(request: GuidanceRequest) -> Guidance:
    """Read everything; blocks, and asks git.

    Raises:
        UsageError: a hooks file or the system prompt that was chosen is wrong.
    """
    config, trusts = request.config, request.trusts
    project = [] if request.project_dir is None else [request.project_dir / PROMPTS]
    library = PromptLibrary(folders=[*project, VibePaths(request.home).prompts])
    commands = [folder / PROJECT_DIRECTORY / COMMANDS for folder in request.lineage if trusts(folder)]
    docs = ProjectDocs.load(request.home, request.lineage, trusts)
    skills = load_skills(request)
    memory = memory_store(request.home, request.workdir, request.user_home)
    memory_section, memory_warning = _remembered(memory)
    hook_files = _hook_files(request)
    unused = () if config.enable_experimental_hooks else _unused(hook_files)
    return Guidance(
        workdir=request.workdir,
        commit_signature=config.include_commit_signature,
        model_info=config.include_model_info,
        prompt_detail=config.include_prompt_detail,
        instructions=config.instructions,
        library=library,
        shell_path=find_shell(),
        skills=skills,
        commands=CommandFiles(dict.fromkeys([*commands, request.home / COMMANDS])),
        hooks=load_hooks(hook_files) if config.enable_experimental_hooks else (),
        docs=docs,
        trusts=trusts,
        memory=memory,
        memory_section=memory_section,
        context=project_context(request, library) if request.snapshot and config.include_project_context else "",
        warnings=(*skills.warnings, *docs.warnings, *memory_warning, *unused, *_of_others(request, skills, docs)),
    )


def _of_others(request: GuidanceRequest, skills: SkillManager, docs: ProjectDocs) -> tuple[str, ...]:
    """Return a line on what other agents would read in this project, where there is nothing of that kind of our own."""
    own = {
        "skills": bool(skills.available),
        "commands": any((folder / PROJECT_DIRECTORY / COMMANDS).is_dir() for folder in request.lineage),
        "servers": bool(request.config.mcp_servers),
        "rules": any(doc.path.parent in request.lineage for doc in docs.docs),
    }
    found = [(kind, name) for kind, names in OF_OTHERS.items() if not own[kind] for name in names]
    left = [(kind, name) for kind, name in found if any((folder / name).exists() for folder in request.lineage)]
    if not left:
        return ()
    ways = [TAKE_OVER[kind].format(name=name) for kind, name in dict(reversed(left)).items()]
    return (f"not read here: {', '.join(name for _, name in left)}; {'; '.join(reversed(ways))}",)


def _unused(files: Sequence[HookFile]) -> tuple[str, ...]:
    """Return what to say where there are hooks and none may run."""
    labels = " and ".join(file.label for file in files if file.path.is_file())
    return (f"hooks are off, {labels} is not used: set enable_experimental_hooks = true",) if labels else ()


def load_skills(request: GuidanceRequest) -> SkillManager:
    """The skills of the configured folders, the trusted project and the user.

    Raises:
        ConfigError: a pattern is not valid.
    """
    trusts = request.trusts
    own = request.home.resolve()
    project = [
        folder / name / SKILLS
        for folder in (*request.lineage, *request.nested)
        if trusts(folder)
        for name in (PROJECT_DIRECTORY, AGENTS_DIRECTORY)
        if (folder / name).resolve() != own
    ]
    sources = SkillSources(
        configured=tuple(map(Path, request.config.skill_paths)),
        project=tuple(project),
        user=(request.home / SKILLS, request.user_home / AGENTS_DIRECTORY / SKILLS),
        enabled=request.config.enabled_skills,
        disabled=request.config.disabled_skills,
    )
    return SkillManager(sources)


def memory_store(home: Path, workdir: Path, user_home: Path) -> MemoryStore:
    """The memory of the project around ``workdir``."""
    lineage = project_lineage(workdir, user_home)
    return MemoryStore(folder=home / MEMORY, project=lineage[-1] if lineage else workdir.resolve())


def _hook_files(request: GuidanceRequest) -> list[HookFile]:
    user = request.home / HOOKS_FILE
    files = [HookFile(path=user, label=shown(user, request.user_home))]
    if request.project_dir is not None:
        path = request.project_dir / HOOKS_FILE
        label = shown(path, request.user_home)
        files.append(HookFile(path=path, label=label, project_dir=request.project_dir.parent))
    return files


def _remembered(memory: MemoryStore) -> tuple[str, tuple[str, ...]]:
    """Return what prompts tell of the memory; a damaged file costs the memory, not the run."""
    try:
        return memory.prompt_section(), ()
    except MemoryFileError as error:
        return "", (str(error),)
