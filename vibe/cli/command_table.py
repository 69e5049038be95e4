"""The commands there are: reserved first words of the command line."""

from __future__ import annotations

import importlib
from types import ModuleType

COMMANDS = {
    "plan": "create, run and inspect plans",
    "agents": "list the agent profiles",
    "setup": "choose a provider and a model, save the key, and test it",
    "config": "show and change settings",
    "models": "list configured models and what their providers offer",
    "tools": "list the tools",
    "events": "follow runs on this machine and answer their requests",
    "memory": "show and change what later conversations remember",
    "skills": "list the skills",
    "trust": "choose which folders' .vibe may be loaded",
    "session": "show, export and rewind saved conversations",
    "mcp": "manage MCP servers, or serve as one",
    "permissions": "explain whether a tool call is allowed",
    "doctor": "check settings, keys, sandbox and programs",
    "completions": "print a completion script for a shell",
    "help": "show help for a command",
    "migrate": "remove settings of Mistral Vibe that have no effect here",
}
"""Each is served by the module of its name in ``vibe.cli.commands``; anything else is a prompt."""


def module_of(command: str) -> ModuleType:
    """Return the module that carries out a command."""
    return importlib.import_module(f"vibe.cli.commands.{command}")
