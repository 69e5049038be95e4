"""The words of every command but ``plan``, apart from what carries them out: help and completions load nothing else."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

from vibe.cli.commands import plan

SHELLS = ("bash", "zsh", "fish")


def _agents(subparsers: Any) -> None:
    parser = subparsers.add_parser("agents", help="look at the agent profiles")
    commands = parser.add_subparsers(dest="agents_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the agents there are")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    listing.add_argument("--workdir", metavar="DIR", help="as if called in this directory")
    listing.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this command")


def _config(subparsers: Any) -> None:
    parser = subparsers.add_parser("config", help="look at the settings and change them")
    commands = parser.add_subparsers(dest="config_command", required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="print every setting as it is")
    show.add_argument("--origin", action="store_true", help="say where each was set")
    show.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    get = commands.add_parser("get", help="print one setting, or those of one table")
    get.add_argument("key", metavar="KEY", help="such as active_model, or planner for all of that table")
    get.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    path = commands.add_parser("path", help="print where the settings file is")
    change = commands.add_parser("set", help="set one key; all else in the file stays as it is")
    change.add_argument("key", metavar="KEY", help="such as active_model or tools.bash.permission")
    change.add_argument("value", metavar="VALUE", help="text, number, true or false; lists as JSON or TOML")
    edit = commands.add_parser("edit", help="open the settings file in $EDITOR, and check it before it counts")
    for command in (path, change, edit):
        command.add_argument("--project", action="store_true", help="the project's .vibe/config.toml, not your own")
    for command in (show, get, path, change, edit):
        command.add_argument("--workdir", metavar="DIR", help="as if called in this directory")
    for command in (show, get):
        command.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this command")


def _models(subparsers: Any) -> None:
    parser = subparsers.add_parser("models", help="list the models that are configured, and what their providers offer")
    parser.add_argument("--online", action="store_true", help="ask the providers which models they offer")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--workdir", metavar="DIR", help="as if called in this directory")
    parser.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this command")


def _tools(subparsers: Any) -> None:
    parser = subparsers.add_parser("tools", help="look at the tools")
    commands = parser.add_subparsers(dest="tools_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the tools there are; those of MCP servers: vibe mcp list")
    listing.add_argument("--agent", metavar="NAME", help="those that this agent has")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    listing.add_argument("--workdir", metavar="DIR", help="as if called in this directory")
    listing.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this command")


def _events(subparsers: Any) -> None:
    parser = subparsers.add_parser("events", help="follow what runs on this machine announce")
    commands = parser.add_subparsers(dest="events_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the runs that publish events now")
    tail = commands.add_parser("tail", help="print the events of a run as they come, until it ends")
    tail.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a source id or its beginning, a plan id, an address, or a journal file; default: the only run there is",
    )
    tail.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="PREFIX",
        help="only events whose topic (type|plan|step) starts so, such as plan. or 'tool.call|'; repeatable",
    )
    tail.add_argument(
        "--from",
        dest="first",
        type=_event_number,
        metavar="N",
        help="start at event N (1: from the beginning); default: with what comes next",
    )
    for command in (listing, tail):
        command.add_argument("--output", choices=("text", "json"), default="text", help="default: text")


def _event_number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"must be an event number, 1 or more, not {text!r}")
    return int(text)


def _memory(subparsers: Any) -> None:
    parser = subparsers.add_parser("memory", help="see and change what later conversations are told")
    commands = parser.add_subparsers(dest="memory_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list what is kept about this project and about everything")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    add = commands.add_parser("add", help="keep a fact")
    add.add_argument("text", nargs="+", metavar="TEXT", help="the fact, in a sentence")
    add.add_argument("--global", dest="everywhere", action="store_true", help="about everything, not this project")
    remove = commands.add_parser("remove", help="forget a fact")
    remove.add_argument("id", metavar="ID", help="its id, from the list")
    for command in (listing, add, remove):
        command.add_argument("--workdir", metavar="DIR", help="the project, instead of the current directory's")


def _skills(subparsers: Any) -> None:
    parser = subparsers.add_parser("skills", help="look at the skills there are")
    commands = parser.add_subparsers(dest="skills_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the skills an agent is offered here")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    listing.add_argument("--workdir", metavar="DIR", help="look here instead of in the current directory")
    listing.add_argument("--trust", action="store_true", help="load this folder's skills, for this once")


def _trust(subparsers: Any) -> None:
    parser = subparsers.add_parser("trust", help="say which folders' .vibe and AGENTS.md may be loaded")
    commands = parser.add_subparsers(dest="trust_command", required=True, metavar="COMMAND")
    for name, words in (
        ("add", "trust a folder and all below it; what is in its .vibe can run programs as you"),
        ("remove", "trust a folder no longer"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("dir", nargs="?", metavar="DIR", help="default: the project around the current directory")
    listing = commands.add_parser("list", help="list the trusted folders")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")


def _session(subparsers: Any) -> None:
    parser = subparsers.add_parser("session", help="look at saved conversations and take them back")
    commands = parser.add_subparsers(dest="session_command", required=True, metavar="COMMAND")

    listed = commands.add_parser("list", help="list the sessions, the newest first")
    listed.add_argument("--here", action="store_true", help="only those of the current directory")
    _add_output(listed)
    show = commands.add_parser("show", help="print a session, one numbered line a message")
    _add_id(show)
    _add_output(show)
    export = commands.add_parser("export", help="print a whole conversation")
    _add_id(export)
    export.add_argument("--format", choices=("md", "json"), default="md", help="default: md")
    rewind = commands.add_parser("rewind", help="fork a session before one of its messages")
    _add_id(rewind)
    rewind.add_argument("message", type=int, metavar="MESSAGE", help="its number as `vibe session show` prints it")
    rewind.add_argument("--files", action="store_true", help="put the workspace's files back as they were then, too")
    _add_output(rewind)


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="the session's id or its beginning")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")


def _mcp(subparsers: Any) -> None:
    parser = subparsers.add_parser("mcp", help="look at the MCP servers")
    commands = parser.add_subparsers(dest="mcp_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="connect to each configured server and list its tools")
    listing.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    listing.add_argument("--workdir", metavar="DIR", help="work here instead of in the current directory")
    listing.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this run")


def _permissions(subparsers: Any) -> None:
    parser = subparsers.add_parser("permissions", help="say what a tool call may do")
    commands = parser.add_subparsers(dest="permissions_command", required=True, metavar="COMMAND")
    explain = commands.add_parser("explain", help="say whether a call runs, is asked about or is denied, and why")
    explain.add_argument("tool", metavar="TOOL", help="the tool's name, such as bash")
    explain.add_argument(
        "arguments",
        metavar="ARGS",
        help="its first argument, or all of them as a JSON object; '-': one JSON value a line on stdin",
    )
    explain.add_argument("--agent", default="", metavar="NAME", help="agent profile")
    explain.add_argument("--auto-approve", "--yolo", action="store_true", help="as with --auto-approve")
    explain.add_argument("--workdir", metavar="DIR", help="the workspace; default: the current directory")
    explain.add_argument("--add-dir", action="append", default=[], metavar="DIR", help="another folder to work in")
    explain.add_argument("--trust", action="store_true", help="load this folder's .vibe")
    explain.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")


def _doctor(subparsers: Any) -> None:
    parser = subparsers.add_parser("doctor", help="look at what runs depend on: settings, keys, sandbox, programs")
    parser.add_argument("--online", action="store_true", help="try to reach the model's server, too")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--workdir", metavar="DIR", help="look from here instead of from the current directory")
    parser.add_argument("--trust", action="store_true", help="load this folder's .vibe")


def _completions(subparsers: Any) -> None:
    parser = subparsers.add_parser("completions", help="print what makes a shell complete these words")
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def _help(subparsers: Any) -> None:
    parser = subparsers.add_parser("help", help="tell more of a command")
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="such as plan, or plan run; default: all of them")


def _migrate(subparsers: Any) -> None:
    parser = subparsers.add_parser("migrate", help="remove settings of Mistral Vibe that have no effect here")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done; change nothing")
    parser.add_argument("--workdir", metavar="DIR", help="clean the settings of this project, too, if it is trusted")


WORDS: dict[str, Callable[[Any], None]] = {
    "plan": plan.add_arguments,
    "agents": _agents,
    "config": _config,
    "models": _models,
    "tools": _tools,
    "events": _events,
    "memory": _memory,
    "skills": _skills,
    "trust": _trust,
    "session": _session,
    "mcp": _mcp,
    "permissions": _permissions,
    "doctor": _doctor,
    "completions": _completions,
    "help": _help,
    "migrate": _migrate,
}
"""Adds a command to a parser's subcommands."""
