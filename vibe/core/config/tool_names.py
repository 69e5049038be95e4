"""Names of tools: ours, those of Mistral Vibe, and what other agents call them."""

from __future__ import annotations

import re
from types import MappingProxyType

TOOL_ALIASES = MappingProxyType({
    "read": "read_file",
    "edit": "search_replace",
    "write": "write_file",
    "webfetch": "web_fetch",
})


def canonical_tool_name(name: str) -> str:
    """Our name of the tool; a pattern, and a name nobody else uses, stay as they are."""
    return TOOL_ALIASES.get(name, name)


def tool_spellings(name: str) -> tuple[str, ...]:
    """Return every name of the tool, ours first."""
    ours = canonical_tool_name(name)
    return (ours, *(alias for alias, named in TOOL_ALIASES.items() if named == ours))


FOREIGN_NAMES = MappingProxyType({
    "askuserquestion": "ask_user_question",
    "bash": "bash",
    "edit": "search_replace",
    "glob": "glob",
    "grep": "grep",
    "ls": "list_dir",
    "multiedit": "search_replace",
    "read": "read_file",
    "runshellcommand": "bash",
    "shell": "bash",
    "skill": "skill",
    "task": "task",
    "todoread": "todo",
    "todowrite": "todo",
    "webfetch": "web_fetch",
    "write": "write_file",
})
"""Names without case and underscores."""

_SERVER_TOOL = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")


def our_tool_name(name: str) -> str:
    """Our name of the tool another agent calls ``name``; a pattern, and a name of our own, stay as they are."""
    server = _SERVER_TOOL.fullmatch(name)
    if server:
        return f"{server['server']}_{server['tool']}"
    canonical = canonical_tool_name(name)
    return canonical if canonical != name else FOREIGN_NAMES.get(name.replace("_", "").casefold(), name)
