"""Lists settings, tools, servers, skills and memory, in the words that commands print and conversations say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vibe.core.config.paths import in_utf8
from vibe.core.instructions.memory import MAX_TEXT, MemoryScope, MemoryStore
from vibe.core.tools.discovery import BUILTIN
from vibe.system.plain_text import counted, date_text, one_line

if TYPE_CHECKING:
    from vibe.app.engine.settings import ShownSetting
    from vibe.core.session.restoring import RestoredFiles
    from vibe.core.skills.manager import SkillInfo
    from vibe.core.tools.manager import ToolManager
    from vibe.core.tools.mcp.connection import ServerState
    from vibe.core.tools.permissions import PermissionDecision

LONGEST = 400
PROBLEM_LENGTH = 600
REASON_LENGTH = 1_000
SHOWN_FILES = 20
NO_SERVERS = "no MCP servers are configured: `vibe mcp add` adds one"
NO_SKILLS = "no skills: put one in .vibe/skills/NAME/SKILL.md here, or below the same folder at home"


def setting_line(setting: ShownSetting, *, origin: bool) -> str:
    """Return a setting with its value and, if wanted, where the value comes from."""
    value = "(not set)" if setting.value is None else json.dumps(setting.value, ensure_ascii=False)
    where = f"  # {one_line(setting.origin)}" if origin else ""
    return one_line(f"{setting.key} = {value}", LONGEST) + where


def tool_source(tools: ToolManager, name: str) -> str:
    """Return where a tool comes from."""
    return "built-in" if tools.origin(name) == BUILTIN else tools.origin(name)


def tool_lines(tools: ToolManager) -> list[str]:
    """Return a line for each tool: name, permission, description, and the origin of one that is not built in."""
    width = max(map(len, tools.available), default=0)
    return [
        f"{one_line(name):<{width}}  {tools.get_tool_config(name).permission.value:<6}  "
        + one_line(tool.get_description() + f" ({tools.origin(name)})" * (tools.origin(name) != BUILTIN), 200)
        for name, tool in tools.available.items()
    ]


def server_lines(server: ServerState) -> list[str]:
    """Return an MCP server's state and its tools."""
    count = f", {counted(len(server.tools), 'tool')}" if server.status == "ready" else ""
    count += f", {counted(server.resources, 'resource')}" if server.resources else ""
    lines = [one_line(f"{server.name} {server.transport} {server.status}{count}")]
    if server.problem:
        lines.append(f"  {one_line(server.problem, PROBLEM_LENGTH)}")
    lines += [f"  {one_line(name)}" for name in server.tools]
    return [*lines, *(f"  not offered: {one_line(problem)}" for problem in server.unusable)]


def skill_line(skill: SkillInfo) -> str:
    """Return a skill with its slash command and its description."""
    command = f"/{skill.command}" if skill.user_invocable else "-"
    return "  ".join((one_line(skill.name, 64), one_line(command, 64), one_line(skill.description)))


def memory_lines(store: MemoryStore) -> list[str]:
    """Return a line for each memory entry; reads files.

    Raises:
        MemoryFileError: they can't be read.
    """
    return [
        f"{one_line(entry.id)}  {scope:<7}  {date_text(entry.created, '%Y-%m-%d')}  "
        f"{one_line(entry.by):<5}  {one_line(entry.text, MAX_TEXT)}"
        for scope in MemoryScope
        for entry in store.entries(scope)
    ]


def decision_line(decision: PermissionDecision) -> str:
    """Return the decision about a tool call, with the rule that made it."""
    return f"{decision.ruling.value} ({decision.rule}): {one_line(decision.reason, REASON_LENGTH)}"


def restored_lines(files: RestoredFiles) -> list[str]:
    """Return a line for each file that was put back, or why one was not."""
    lines = [f"restored {one_line(name)}" for name in files.restored]
    lines += [f"deleted {one_line(name)}" for name in files.deleted]
    if len(lines) > SHOWN_FILES:
        lines[SHOWN_FILES:] = [f"… and {counted(len(lines) - SHOWN_FILES, 'more file')}"]
    for conflict in files.conflicts:
        kept = one_line(in_utf8(conflict.saved_as), LONGEST)
        lines.append(f"{one_line(conflict.path)} was changed elsewhere; that version is kept as {kept}")
    return [*lines, *(f"not restored: {one_line(name)}: {one_line(why)}" for name, why in files.skipped.items())]
