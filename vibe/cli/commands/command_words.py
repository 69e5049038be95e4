"""The words of every command but ``plan``, apart from what carries them out: help and completions load nothing else."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from vibe.cli.arguments import add_common, positive_number
from vibe.cli.commands import plan

SHELLS = ("bash", "zsh", "fish")
NAMES = ("plans", "sessions", "agents", "models", "providers", "servers")
LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}


def _commands(parser: ArgumentParser, name: str) -> Any:
    """Have a command take one of the commands below it, whose name arguments then have as ``name``."""
    return parser.add_subparsers(dest=name, required=True, metavar="COMMAND")


def _agents(parser: ArgumentParser) -> None:
    commands = _commands(parser, "agents_command")
    listing = commands.add_parser("list", help="list the agents")
    add_common(listing, "output", "workdir", "trust")


def _config(parser: ArgumentParser) -> None:
    commands = _commands(parser, "config_command")
    show = commands.add_parser("show", help="print all settings")
    show.add_argument("--origin", action="store_true", help="show where each was set")
    get = commands.add_parser("get", help="print one setting or table")
    get.add_argument("key", metavar="KEY", help="such as active_model, or planner for the whole table")
    path = commands.add_parser("path", help="print the path of the settings file")
    change = commands.add_parser("set", help="set one key; the rest of the file is unchanged")
    change.add_argument("key", metavar="KEY", help="such as active_model or tools.bash.permission")
    change.add_argument("value", metavar="VALUE", help="text, number, true or false; lists as JSON or TOML")
    edit = commands.add_parser("edit", help="open the settings file in $EDITOR; it is checked before it is saved")
    for command in (path, change, edit):
        command.add_argument("--project", action="store_true", help="the project's .vibe/config.toml, not your own")
    for command in (show, get, path, change, edit):
        add_common(command, "workdir")
    for command in (show, get):
        add_common(command, "output", "trust")


def _setup(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--provider", metavar="NAME", help="the provider; at a terminal you are asked for what is missing"
    )
    parser.add_argument(
        "--key-from",
        metavar="VARIABLE",
        help="store the key from this variable; '-': from stdin; default: the one found",
    )
    parser.add_argument("--model", metavar="NAME", help="a configured model, or a name at the provider")
    parser.add_argument(
        "--key-store",
        choices=("keyring", "file"),
        help="where to store the key; default: ask at a terminal, .env in a script",
    )
    parser.add_argument(
        "--forget-key", action="store_true", help="remove the key of --provider from the keyring and from .env"
    )
    parser.add_argument("--no-test", action="store_true", help="don't test the model")
    add_common(parser, "output")


def _models(parser: ArgumentParser) -> None:
    parser.add_argument("--online", action="store_true", help="ask the providers which models they offer")
    parser.add_argument("--provider", metavar="NAME", default="", help="ask only this one, configured or a preset")
    add_common(parser, "output", "workdir", "trust")


def _tools(parser: ArgumentParser) -> None:
    commands = _commands(parser, "tools_command")
    listing = commands.add_parser("list", help="list the tools; for MCP servers: vibe mcp list")
    listing.add_argument("--agent", metavar="NAME", help="tools of this agent")
    add_common(listing, "output", "workdir", "trust")


def _events(parser: ArgumentParser) -> None:
    commands = _commands(parser, "events_command")
    listing = commands.add_parser("list", help="list the runs publishing events now")
    commands.add_parser("schema", help="print the JSON Schema of all events")
    tail = commands.add_parser("tail", help="print the events of a run until it ends")
    tail.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a source id or a prefix, a plan id, an address, or a journal file; default: the only run",
    )
    tail.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="PREFIX",
        help="only events whose topic (type|plan|step) has this prefix, such as plan. or 'tool.call|'; repeatable",
    )
    tail.add_argument(
        "--from",
        dest="first",
        type=_event_number,
        metavar="N",
        help="start at event N (1: the first); default: new events only",
    )
    answer = commands.add_parser("answer", help="list the requests of a run, or answer one")
    answer.add_argument("source", metavar="SOURCE", help="the run: a source id or a prefix, or a plan id")
    answer.add_argument(
        "request", nargs="?", metavar="REQUEST", help="the request's id, or at least its first four characters"
    )
    answer.add_argument(
        "answer",
        nargs="*",
        metavar="ANSWER",
        help="to a call: yes, no, session, edits or always; to a decision: its options; to questions: for each a "
        "label, its number, your own words, or - to decline",
    )
    answer.add_argument("--reason", default="", metavar="TEXT", help="why a call is allowed or not, for the model")
    answer.add_argument("--by", type=_asker, default="control", metavar="NAME", help="who answers; default: control")
    watch = commands.add_parser("watch", help="watch another process's run until it ends")
    watch.add_argument("source", nargs="?", metavar="SOURCE", help="as in tail")
    for command in (listing, tail, answer):
        add_common(command, "output")


def _asker(text: str) -> str:
    if not re.fullmatch(r"[!-~][ -~]{0,99}", text):
        raise ArgumentTypeError(f"must be 1 to 100 letters, digits and signs, not {text[:40]!r}")
    return text


def _event_number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]*", text):
        raise ArgumentTypeError(f"must be an event number, 1 or more, not {text!r}")
    return int(text)


def _memory(parser: ArgumentParser) -> None:
    commands = _commands(parser, "memory_command")
    listing = commands.add_parser("list", help="list the facts about this project and about everything")
    add_common(listing, "output")
    add = commands.add_parser("add", help="add a fact")
    add.add_argument("text", nargs="+", metavar="TEXT", help="the fact, in a sentence")
    add.add_argument("--global", dest="everywhere", action="store_true", help="about everything, not this project")
    remove = commands.add_parser("remove", help="remove a fact")
    remove.add_argument("id", metavar="ID", help="its id, from the list")
    for command in (listing, add, remove):
        command.add_argument("--workdir", metavar="DIR", help="the project, instead of the current directory's")


def _skills(parser: ArgumentParser) -> None:
    commands = _commands(parser, "skills_command")
    listing = commands.add_parser("list", help="list the skills available here")
    add_common(listing, "output", "workdir", "trust")


def _trust(parser: ArgumentParser) -> None:
    commands = _commands(parser, "trust_command")
    for name, words in (
        ("add", "trust a folder and everything below it; its .vibe can run programs as you"),
        ("remove", "stop trusting a folder"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("dir", nargs="?", metavar="DIR", help="default: the project around the current directory")
    listing = commands.add_parser("list", help="list the trusted folders")
    add_common(listing, "output")


def _session(parser: ArgumentParser) -> None:
    commands = _commands(parser, "session_command")

    listed = commands.add_parser("list", help="list the sessions, newest first")
    listed.add_argument("--here", action="store_true", help="only those of the current directory")
    add_common(listed, "output")
    show = commands.add_parser("show", help="print a session, one numbered line per message")
    _add_id(show)
    add_common(show, "output")
    export = commands.add_parser("export", help="print a whole conversation")
    _add_id(export)
    export.add_argument("--format", choices=("md", "json"), default="md", help="default: md")
    rewind = commands.add_parser("rewind", help="fork a session before one of its messages")
    _add_id(rewind)
    rewind.add_argument("message", type=int, metavar="MESSAGE", help="its number, as in `vibe session show`")
    rewind.add_argument("--files", action="store_true", help="also restore the workspace's files")
    add_common(rewind, "wait", "output")


def _add_id(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="the session's id or a prefix")


def _mcp(parser: ArgumentParser) -> None:
    commands = _commands(parser, "mcp_command")
    listing = commands.add_parser("list", help="connect to each configured server and list its tools")
    add_common(listing, "output", "workdir", "trust")
    add = commands.add_parser("add", help="add a server to the settings; nothing is started")
    add.add_argument("name", metavar="NAME", help="the prefix of its tools' names")
    add.add_argument(
        "target", nargs="+", metavar="URL|COMMAND", help="its address, or after -- the command that starts it"
    )
    pairs = {"env": "a variable of the command", "header": "a header of every request"}
    for flag, what in pairs.items():
        add.add_argument(
            f"--{flag}", action="append", default=[], metavar="NAME=VALUE", help=f"{what}; ${{NAME}} is replaced"
        )
    add.add_argument("--key-env", metavar="NAME", help="the variable that holds its key, sent as a bearer token")
    remove = commands.add_parser("remove", help="remove a server from the settings")
    remove.add_argument("name", metavar="NAME", help="its name there")
    taken = commands.add_parser("import", help="add servers from another agent's JSON file")
    taken.add_argument("file", nargs="?", default=".mcp.json", metavar="FILE", help="(default: .mcp.json)")
    for command in (add, remove, taken):
        command.add_argument("--project", action="store_true", help="the project's .vibe/config.toml, not your own")
        add_common(command, "workdir")
    login = commands.add_parser("login", help="sign in to a server in a browser")
    login.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    login.add_argument("--client-id", default="", metavar="ID", help="for servers that don't register clients")
    login.add_argument("--port", type=_port, default=0, metavar="PORT", help="port for the redirect (default: any)")
    login.add_argument(
        "--timeout", type=positive_number, default=300.0, metavar="SECONDS", help="how long to wait (default: 300)"
    )
    logout = commands.add_parser("logout", help="delete the tokens of a server")
    for command in (login, logout):
        command.add_argument("name", metavar="NAME", help="its name in the settings")
        add_common(command, "workdir", "trust")
    serve = commands.add_parser("serve", help="serve vibe to other agents as an MCP server on stdin and stdout")
    serve.add_argument(
        "--http",
        type=_loopback,
        metavar="[HOST:]PORT",
        help="listen there instead, for clients on this machine with the token (VIBE_MCP_TOKEN, or the one printed)",
    )
    add_common(serve, "auto-approve")


def _loopback(text: str) -> tuple[str, int]:
    """Split an address that only this machine reaches."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise ArgumentTypeError(f"must be a port, 0 to 65535, or HOST:PORT, not {text!r}")
    if host not in LOOPBACK:
        raise ArgumentTypeError(f"only this machine may be served: one of {', '.join(LOOPBACK)}, not {host!r}")
    return LOOPBACK[host], int(port)


def _port(text: str) -> int:
    """Return a port, 0 being any."""
    return _loopback(text)[1]


def _permissions(parser: ArgumentParser) -> None:
    commands = _commands(parser, "permissions_command")
    explain = commands.add_parser("explain", help="say whether a call is allowed, asked about or denied, and why")
    explain.add_argument("tool", metavar="TOOL", help="the tool's name, such as bash")
    explain.add_argument(
        "arguments",
        metavar="ARGS",
        help="its first argument, or all of them as a JSON object; '-': one JSON value a line on stdin",
    )
    explain.add_argument("--agent", default="", metavar="NAME", help="agent profile")
    explain.add_argument("--auto-approve", "--yolo", action="store_true", help="as with --auto-approve")
    add_common(explain, "workdir", "add-dir", "trust")
    explain.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument("--online", action="store_true", help="also test the model and its tool calls")
    add_common(parser, "output", "workdir", "trust")


def _completions(parser: ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.add_argument(
        "--names", choices=NAMES, help="print the names of a kind that there are, as the scripts ask for"
    )


def _help(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="such as plan, or plan run; default: all commands")


def _migrate(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would be done; change nothing")
    parser.add_argument("--workdir", metavar="DIR", help="also clean this project's settings, if it is trusted")


WORDS: dict[str, Callable[[ArgumentParser], None]] = {
    "plan": plan.add_arguments,
    "agents": _agents,
    "setup": _setup,
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
"""Adds the words of a command to its parser."""
