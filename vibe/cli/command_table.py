"""The commands there are: reserved first words of the command line."""

from __future__ import annotations

import importlib
from types import ModuleType

COMMANDS = {
    "plan": "run plans and look at them",
    "agents": "list the agent profiles",
    "setup": "choose a provider, keep its key, choose a model, and try it",
    "config": "look at the settings and change them",
    "models": "list the models that are configured, and what their providers offer",
    "tools": "list the tools",
    "events": "follow what runs on this machine announce, and answer what they ask",
    "memory": "see and change what later conversations are told",
    "skills": "list the skills",
    "trust": "say which folders' .vibe may be loaded",
    "session": "look at saved conversations and take them back",
    "mcp": "look at the MCP servers, or be one",
    "permissions": "say what a tool call may do, and why",
    "doctor": "look at what runs depend on: settings, keys, sandbox, programs",
    "completions": "print what makes a shell complete these words",
    "help": "tell more of a command",
    "migrate": "remove settings of Mistral Vibe that have no effect here",
}
"""Each is served by the module of its name in ``vibe.cli.commands``; anything else is a prompt."""


def module_of(command: str) -> ModuleType:
    """Return the module that carries out a command."""
    return importlib.import_module(f"vibe.cli.commands.{command}")
