"""The grammar of the command line: every command with its arguments.

A misspelled command is an error, never taken for a prompt.
"""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from vibe.cli.parser import CommandLineError, Parser, ShowVersion
from vibe.system.errors import closest, did_you_mean

SHELLS = ("bash", "zsh", "fish")
NAMES = ("plans", "library", "sessions", "sources", "agents", "models", "providers", "servers")
LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}


def _number(kind: Callable[[str], float], least: float, what: str) -> Callable[[str], float]:
    """Return an argument type for numbers that are at least ``least``, and fit into every format we write."""

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = -1
        if not least <= value < 1e15:
            raise ArgumentTypeError(f"must be {what}, not {text[:80]!r}")
        return value

    return number


_positive_int = _number(int, 1, "an integer, 1 or more")
_positive_number = _number(float, math.ulp(0.0), "a number above 0")
_event_number = _number(int, 1, "an event number, 1 or more")
_message_number = _number(int, 0, "the number of a message, 0 or more")


def _pair(kind: Callable[[str], Any], shape: str, example: str) -> Callable[[str], tuple[str, Any]]:
    """Return an argument type for NAME=VALUE, where the value has the given shape."""

    def pair(text: str) -> tuple[str, Any]:
        found = re.fullmatch(rf"([a-z0-9][a-z0-9_-]{{0,63}})=({shape})", text)
        if found is None:
            raise ArgumentTypeError(f"must be a name and what it stands for, such as {example}, not {text[:80]!r}")
        return found[1], kind(found[2])

    return pair


def _named(text: str) -> str:
    """Refuse a blank, as from a variable that is not set; it must not mean all of them, or none."""
    if not text.strip():
        raise ArgumentTypeError("is blank: name one, or leave it out")
    return text


def _text(text: str) -> str:
    """Refuse bytes that aren't UTF-8: only a path may hold them, and neither an event nor a settings file can."""
    if re.search("[\udc80-\udcff]", text):
        raise ArgumentTypeError(f"must be UTF-8, not {text[:80]!r}")
    return text


def _entry(text: str) -> str:
    return _text(_named(text))


def _asker(text: str) -> str:
    if not re.fullmatch(r"[!-~][ -~]{0,99}", text):
        raise ArgumentTypeError(f"must be 1 to 100 letters, digits and signs, not {text[:40]!r}")
    return text


def _age(text: str) -> float:
    """Return an age in seconds."""
    found = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if not found:
        raise ArgumentTypeError(f"must be an age such as 30d, 12h or 2w, not {text!r}")
    return int(found[1]) * {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}[found[2]]


def _loopback(text: str) -> tuple[str, int]:
    """Split an address that only this machine can reach into host and port."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise ArgumentTypeError(f"must be a port, 0 to 65535, or HOST:PORT, not {text!r}")
    if host not in LOOPBACK:
        raise ArgumentTypeError(f"only this machine may be served: one of {', '.join(LOOPBACK)}, not {host!r}")
    return LOOPBACK[host], int(port)


def _port(text: str) -> int:
    """Return a port number; 0 means any free port."""
    return _loopback(text)[1]


def _word(metavar: str | tuple[str, ...] | None, about: str, **more: Any) -> Mapping[str, Any]:
    """Describe an argument, or an option that takes a value; without a ``type``, a blank is refused."""
    return {"metavar": metavar, "help": about, "type": _named, **more}


def _words(metavar: str | tuple[str, ...], about: str, **more: Any) -> Mapping[str, Any]:
    """Describe an option that may be repeated."""
    return _word(metavar, about, action="append", default=[], **more)


def _given(metavar: str, flag: str, about: str) -> Mapping[str, Any]:
    """Describe a repeatable option that is a setting for this run only; see ``vibe.cli.given``."""

    def tagged(word: str) -> tuple[str, str]:
        return flag, _named(word)

    return _words(metavar, about, dest="given", type=tagged)


def _choice(about: str, *choices: str, **more: Any) -> Mapping[str, Any]:
    """Describe an option that takes one of a few values."""
    return _word(None, about, choices=choices, **more)


def _flag(about: str, **more: Any) -> Mapping[str, Any]:
    """Describe an option without a value."""
    return {"action": "store_true", "help": about, **more}


ARGUMENTS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    # shared by several commands
    "--add-dir": _words("DIR", "another folder to work in", dest="extra_roots"),
    "--auto-approve/--yolo": _flag("run everything no rule denies, without asking"),
    "--bus": _word("ADDRESS", "publish events here, e.g. tcp://127.0.0.1:5555", dest="bus_address"),
    "--max-price": _word("USD", "stop before more is spent", type=_positive_number),
    "--max-tokens": _word("N", "stop before more tokens are used", type=_positive_int),
    "--network": _flag("let sandboxed commands use the network, not only localhost"),
    "--output": _choice("default: text", "text", "json", default="text"),
    "--output:runs": _choice("format of stdout (default: text)", "text", "json", "streaming"),
    "--input": _choice("take commands as JSON lines on stdin; implies --output streaming", "json"),
    "--detach": _flag("go on without the terminal; print the id once it has begun"),
    "--project": _flag("the project's .vibe/config.toml, not your own"),
    "--trust": _flag("load this folder's .vibe, this time only"),
    "--set": _given("KEY=VALUE", "--set", "a setting, this time only; repeatable"),
    "--disabled-tools": _given("PATTERN", "--disabled-tools", "not these tools, this time only; repeatable"),
    "--instructions": _given("TEXT|@FILE", "--instructions", "tell every agent this, this time only"),
    "--mcp": _given("FILE", "--mcp", "use the MCP servers of this JSON file as well, this time only"),
    "--wait": _word(
        "SECONDS",
        "wait longer than 30 s, or without end, for others that write in this folder",
        nargs="?",
        const=math.inf,
        type=_positive_number,
    ),
    "--workdir": _word("DIR", "work here instead of in the current directory"),
    # a prompt
    "words": _word("PROMPT", "what to do; '-': wait for stdin", nargs="*", type=str),
    "-p/--prompt": _word("PROMPT", "answer and exit; '-': from stdin", nargs="?", const="", type=str),
    "--plain": _flag("chat at the terminal, line by line"),
    "--attach": _word("SOURCE", "watch, answer and steer a run of another process"),
    "--setup": _flag("set up provider, key, model and theme first"),
    "--prompt-file": _word("FILE", "read the prompt from this file; answer and exit"),
    "--output-dir": _word(
        "DIR", "write result.json, events.jsonl and messages.jsonl here, replacing those of an earlier run"
    ),
    "--output-schema": _word("FILE", "answer with a value that fits this JSON Schema"),
    "--image": _words("FILE", "an image for the prompt; repeatable"),
    "--agent": _word("NAME", "agent profile (default: default_agent)"),
    "--model": _word("ALIAS", "model to use"),
    "--max-turns": _word("N", "stop after N model calls, those of subagents included", type=_positive_int),
    "--time-limit": _word("SECONDS", "stop after SECONDS", type=_positive_number),
    "--enabled-tools": _word("PATTERN", "only these: name, glob or re:...; repeatable", action="append"),
    "-c/--continue": _flag("continue the last session here", action="store_const", const="latest", dest="resume"),
    "--resume": _word("ID", "continue the session with this id, or the last", nargs="?", const="latest", type=str),
    "--version/-V": _word(None, "print the version", action=ShowVersion, nargs=0),
    "--debug": _flag("show tracebacks"),
    # writing and running plans
    "goal": _word("GOAL", "what the plan must achieve; '-': from stdin", nargs="+", type=_text),
    "--from": _word("PLAN", "change this plan file instead, as GOAL says", dest="base"),
    "-o": _word("FILE", "write the plan here; default: to stdout", dest="to"),
    "file": _word("FILE|NAME", "the plan: a file, '-' for stdin, or a name of `vibe plan library`", nargs="?"),
    "--demo": _flag("run the built-in demonstration instead of a FILE"),
    "--dry-run": _flag("print order, longest chain and budget; run nothing"),
    "--only": _words("STEP", "run this step, or those tagged (tag:NAME), and what they depend on; repeatable, or A,B"),
    "--resume:file": _flag("continue the last run of this file here, if it has not ended"),
    "--reuse": _word("ID", "reuse results of that plan's unchanged steps"),
    "--accept-commands": _flag("accept the commands in this plan, which a model wrote", dest="accepted"),
    "--allow-dirty": _flag("let worktree steps start from uncommitted changes"),
    "--max-parallel": _word("N", "run at most N steps in parallel", type=_positive_int),
    "--with": _words("NAME=VALUE", "a value for an input of the plan; repeatable", dest="inputs", type=_text),
    "--decide": _words("ID=OPTION", "decide beforehand; repeatable", type=_text),
    "--approve": _choice("let steps edit files in the workspace without asking", "edits"),
    "--wait:answers": _flag(
        "wait for decisions and approvals, given with `vibe plan decide` and `approve` from another terminal, "
        "and without end for others that write in this folder"
    ),
    "--fail-fast": _flag("start no more steps once one has failed"),
    "--executor": _word(
        "NAME",
        "'local': in this process, 'process': one per agent, 'dask': a cluster (default: local; resume: as before)",
    ),
    "--cluster": _word(
        "ADDRESS",
        "the cluster that does steps in worktrees: tls://HOST:PORT, tcp://127.0.0.1:PORT, or local:N[xM] for N workers "
        "of this machine with M slots each; implies --executor dask",
    ),
    "--model:steps": _word("ALIAS", "model for steps that name none"),
    "--show-output": _flag("print the output of commands and checks live; lines, no tree"),
    "--report": _words(
        "FILE",
        "write a report here at the end: .md, .html, .json or .xml (JUnit); "
        "'github': annotations and step summary; repeatable",
    ),
    # viewing and controlling plans
    "plan": _word("ID", "the plan's id or a prefix, or 'latest'"),
    "plan:file": _word("FILE|NAME", "'-': from stdin"),
    "plan:any": _word("FILE|ID", "a plan file, '-' for stdin, a plan's id, or a name of `vibe plan library`"),
    "--format:graph": _choice("default: tree", "tree", "mermaid", "dot", "svg", default="tree"),
    "step:items": _word("STEP", "of this step, the steps for its items", nargs="?"),
    "--page": _word("N", "with STEP: of its items, this page (default: 1)", type=_positive_int, default=1),
    "step:log": _word("STEP", "of this step only", nargs="?"),
    "--follow": _flag("keep printing while the plan runs"),
    "--follow:runs": _flag("keep printing: a line for each change"),
    "--plain:runs": _flag("print the list once, as lines"),
    "run:shown": _word("RUN", "with --web: the run to show first, a plan id or a source", nargs="?"),
    "--web": _flag("serve them as a page for a browser on this machine, until Ctrl-C"),
    "--port:page": _word("PORT", "with --web: listen there (default: any that is free)", type=_port, default=0),
    "--control": _flag("with --web: let the page answer and steer; without, it can only look"),
    "--allow-host": _words("NAME", "with --web: serve under this name too, for a tunnel; repeatable"),
    "--name:page": _word("WHO", "with --web: who answers by the page (default: page)", type=_text),
    "--open": _flag("with --web: open the page in your browser"),
    "--format:report": _choice("default: by the extension of FILE, else md", "md", "html", "json", "junit"),
    "-o:report": _word("FILE", "write it to this file", dest="file"),
    "file:review": _word("FILE", "show the diff of this file", nargs="?"),
    "--diff": _flag("show the diffs of all files"),
    "--step": _word("STEP", "of this step; default: the last one that changed the file"),
    "--comment": _words(
        ("FILE:LINE[-LINE]", "TEXT"),
        "comment on lines of what a step made of FILE; it runs again with its comments; repeatable",
        nargs=2,
    ),
    "--reject": _words("FILE", "give FILE back as it was before the step; repeatable"),
    "--force": _flag("with --reject: also if others changed FILE since; a copy is kept"),
    "one": _word("A", "a plan file or a plan's id"),
    "other": _word("B", "a plan file or a plan's id"),
    "plans": _word("ID", "a plan's id or a prefix", nargs="*"),
    "--all": _flag("clean all ended plans"),
    "--records": _flag("also delete the plans' records, results and logs"),
    "--dry-run:clean": _flag("list what would be removed; remove nothing"),
    "--now": _flag("stop running steps at once, not at the end of their turn"),
    "step": _word("STEP", "its id"),
    "step:cancel": _word("STEP", "only this step; the others continue", nargs="?"),
    "decision": _word("DECISION", "as `vibe plan status ID` lists it"),
    "options": _word("OPTION", "what to choose", nargs="+", type=_text),
    "request": _word("REQUEST", "the request's id or a prefix, as the run prints it"),
    "--deny": _flag("deny it"),
    "--reason": _word("TEXT", "what the model is told", default="", type=_text),
    "text": _word("TEXT", "what to tell it", nargs="+", type=_text),
    "--message": _word("TEXT", "what to tell the agent of the new attempt", default="", type=_text),
    "--operations": _word("FILE", "a JSON list of operations; '-': from stdin"),
    "--file": _word("FILE", "the new plan; differences are applied"),
    "--ask": _word("SENTENCE", "let a model write the change, for you to confirm", type=_text),
    "--yes": _flag("with --ask: apply the change without confirmation"),
    "--max-tokens:plan": _word("N", "token limit of the whole plan", type=_positive_int),
    "--max-price:plan": _word("USD", "price limit of the whole plan", type=_positive_number),
    "--max-seconds": _word("S", "time limit of the whole plan", type=_positive_number),
    "--reason:edit": _word("TEXT", "the reason, for the plan's history", default="", type=_text),
    "--trust:plan": _flag("let steps use the workspace's .vibe"),
    # settings
    "--provider": _word("NAME", "the provider; at a terminal you are asked for what is missing"),
    "--key-from": _word("VARIABLE", "store the key from this variable; '-': from stdin; default: the one found"),
    "--model:setup": _word("NAME", "a configured model, or a name at the provider"),
    "--key-store": _choice("where to store the key; default: ask at a terminal, .env in a script", "keyring", "file"),
    "--forget-key": _flag("remove the key of --provider from the keyring and from .env"),
    "--no-test": _flag("don't test the model"),
    "--origin": _flag("show where each was set"),
    "key:get": _word("KEY", "such as active_model, or planner for the whole table"),
    "key": _word("KEY", "such as active_model or tools.bash.permission"),
    "value": _word("VALUE", "text, number, true or false; lists as JSON or TOML", type=_text),
    "--online:models": _flag("ask the providers which models they offer"),
    "--provider:models": _word("NAME", "ask only this one, configured or a preset"),
    "dir": _word("DIR", "default: the project around the current directory", nargs="?"),
    "tool": _word("TOOL", "the tool's name, such as bash"),
    "arguments": _word(
        "ARGS", "its first argument, or all of them as a JSON object; '-': one JSON value a line on stdin", type=str
    ),
    "--json": _flag("one JSON object instead of a sentence"),
    # runs, conversations and notes
    "source": _word(
        "SOURCE", "a source, plan or session id, 'latest', an address or a journal; default: the only run", nargs="?"
    ),
    "--topic": _words(
        "PREFIX", "only events whose topic (type|plan|step) has this prefix, such as plan. or 'tool.call|'; repeatable"
    ),
    "--from:event": _word(
        "N", "start at event N (1: the first); default: new events only", dest="first", type=_event_number
    ),
    "source:answer": _word("SOURCE", "the run: a source, plan or session id, or 'latest'"),
    "request:answer": _word("REQUEST", "the request's id, or at least its first four characters", nargs="?"),
    "answer": _word(
        "ANSWER",
        "to a call: yes, session, always, edits or no, or the first letter of one; to a decision: its options; to "
        "questions: for each a label, its number, your own words, or - to decline",
        nargs="*",
        default=[],
        type=_text,
    ),
    "--reason:answer": _word("TEXT", "why a call is allowed or not, for the model", default="", type=_text),
    "--by": _word("NAME", "who answers; default: control", default="control", type=_asker),
    "--otlp": _word("URL", "the receiver's address, e.g. http://localhost:4318", required=True),
    "--content": _flag("send the texts of messages and calls, too"),
    "--here": _flag("only those of the current directory"),
    "session": _word("ID", "the session's id or a prefix, or 'latest' for the last one here"),
    "sessions": _word("ID", "a session's id or a prefix", nargs="+"),
    "--format:session": _choice("default: md", "md", "json", "html", default="md"),
    "-o:session": _word("FILE", "write it to this file, readable only by you", dest="file"),
    "--older-than": _word("AGE", "sessions in which nothing was said for so long: 30d, 12h, 2w", type=_age),
    "words:search": _word("WORD", "a word, or several that must all be there", nargs="+", type=str),
    "title": _word("TITLE", "its new title", nargs="+", type=_text),
    "message:fork": _word(
        "MESSAGE", "before this message; default: the whole session", type=_message_number, nargs="?"
    ),
    "--days": _word("N", "of so many days (default: 30)", type=_positive_int, default=30),
    "--by:usage": _choice("a row for each (default: model)", "model", "project", "day", "plan", default="model"),
    "message": _word("MESSAGE", "its number, as in `vibe session show`", type=_message_number),
    "--files": _flag("also restore the workspace's files"),
    "text:note": _word("TEXT", "the fact, in a sentence", nargs="+", type=_text),
    "--global": _flag("about everything, not this project", dest="everywhere"),
    "id": _word("ID", "its id, from the list"),
    # servers
    "name:new": _word("NAME", "the prefix of its tools' names", type=_entry),
    "target": _word("URL|COMMAND", "its address, or after -- the command that starts it", nargs="+", type=_text),
    "--env": _words("NAME=VALUE", "a variable of the command; ${NAME} is replaced", type=_text),
    "--header": _words("NAME=VALUE", "a header of every request; ${NAME} is replaced", type=_text),
    "--key-env": _word("NAME", "the variable that holds its key, sent as a bearer token", type=_entry),
    "file:servers": _word("FILE", "(default: .mcp.json)", nargs="?", default=".mcp.json"),
    "--no-browser": _flag("print the address instead of opening it"),
    "--client-id": _word("ID", "for servers that don't register clients", default="", type=_text),
    "--port": _word("PORT", "port for the redirect (default: any)", default=0, type=_port),
    "--timeout": _word("SECONDS", "how long to wait (default: 300)", default=300.0, type=_positive_number),
    "name": _word("NAME", "its name in the settings"),
    "--http": _word(
        "[HOST:]PORT",
        "listen there instead, for clients on this machine with the token (VIBE_MCP_TOKEN, or the one printed)",
        type=_loopback,
    ),
    # a cluster
    "dir:certificates": _word("DIR", "a new folder for them"),
    "address:listen": _word(
        "ADDRESS", "tls://HOST:PORT or tcp://127.0.0.1:PORT (default: that of [cluster], on all networks)", nargs="?"
    ),
    "address:scheduler": _word("ADDRESS", "the scheduler's (default: that of [cluster])", nargs="?"),
    "--certificates": _word("DIR", "the folder with the certificates (default: that of [cluster])"),
    "--slots": _word("N", "do N steps at once (default: 1)", type=_positive_int, default=1),
    "--label": _words(
        "NAME=TEXT",
        "what steps may need of a worker, beside os, arch and host; repeatable",
        type=_pair(_text, r"\S.{0,199}", "os=linux"),
    ),
    "--resource": _words(
        "NAME=NUMBER",
        "what there is so much of, such as gpu=1; repeatable",
        type=_pair(float, r"\d{1,9}(?:\.\d{1,3})?", "gpu=1"),
    ),
    "--folder": _word("DIR", "keep projects and checkouts here (default: in your cache)"),
    "--json:status": _flag("JSON instead of lines", action="store_const", const="json", default="text", dest="output"),
    # vibe itself
    "--online": _flag("also test the model and its tool calls"),
    "--cluster:doctor": _flag("also check the cluster of [cluster], and each of its workers"),
    "shell": _word("SHELL", "bash, zsh or fish", nargs="?", choices=SHELLS),
    "--names": _word("KIND", f"print the names there are, as the scripts ask for: {', '.join(NAMES)}", choices=NAMES),
    "words:help": _word("COMMAND", "such as plan, or plan run; default: all commands", nargs="*"),
    "--workdir:migrate": _word("DIR", "also clean this project's settings, if it is trusted"),
})
"""The argparse settings of every argument, keyed by its spellings.

Where commands use the same spelling for different arguments, a note after the colon tells them apart.
"""


class Syntax(NamedTuple):
    """A command: its purpose, and its arguments as keys of ``ARGUMENTS``; those joined by ``|`` exclude each other."""

    about: str
    arguments: str = ""


LISTING = "--output --workdir --trust"
FOLDERS = "--workdir --add-dir --trust"
GIVEN = "--set --disabled-tools --instructions --mcp"
"""Settings that apply to this command's runs only."""
LIMITS = "--yes --max-tokens:plan --max-price:plan --max-seconds"
WRITING = f"--from -o --workdir --output --model --max-tokens --max-price --bus --trust {GIVEN}"
NEW_RUN = "--demo --with --workdir --dry-run --only --resume:file --reuse --accept-commands --allow-dirty"
RUN = (
    "--output:runs --input --detach --max-parallel --decide --approve --auto-approve/--yolo --network --wait:answers "
    f"--fail-fast --executor --cluster --model:steps --bus --trust --show-output --report {GIVEN}"
)
"""Arguments for running a plan, new or resumed."""
PAGE = "run:shown --web --port:page --control --allow-host --name:page --open"
"""Arguments for the page of all runs."""
PROMPT = Syntax(
    "A coding agent that plans and executes.",
    (
        "words -p/--prompt --plain --attach --setup --prompt-file --output:runs --input --detach --output-dir "
        "--output-schema --image --agent --model --auto-approve/--yolo --network --max-turns --max-tokens "
        f"--max-price --time-limit --wait --enabled-tools -c/--continue|--resume {FOLDERS} {GIVEN} --version/-V "
        "--debug"
    ),
)
GRAMMAR = MappingProxyType({
    "plan": Syntax("create, run and inspect plans"),
    "plan new": Syntax("write a plan for a goal, without running it", f"goal {WRITING}"),
    "plan run": Syntax("run a plan, of a file or by name", f"file {NEW_RUN} {RUN}"),
    "plan resume": Syntax("continue a plan that was paused or killed", f"plan {RUN}"),
    "plan validate": Syntax("report every problem of a plan file", "plan:file --output"),
    "plan show": Syntax("print a plan: its steps, and their status if it has run", "plan:any --output"),
    "plan graph": Syntax("draw a plan's steps and their dependencies", "plan:any --format:graph"),
    "plan schema": Syntax("print the JSON Schema of plan files"),
    "plan library": Syntax("list the plans that can be run by name", LISTING),
    "plan list": Syntax("list all plans that have run, in any folder", "--output"),
    "plan status": Syntax("show a plan's status", "plan step:items --page --output"),
    "plan logs": Syntax("show the output of a plan's commands, checks and agents", "plan step:log --follow"),
    "plan report": Syntax("write a report: steps, time, cost, decisions, changes", "plan --format:report -o:report"),
    "plan review": Syntax(
        "show what each step changed; comment on it, or give files back as they were before",
        "plan file:review --diff --step --comment --reject --force --output",
    ),
    "plan diff": Syntax("compare the steps of two plans, and say why they differ", "one other --output"),
    "plan clean": Syntax(
        "remove worktrees, branches and sample copies of ended plans", "plans --all --records --dry-run:clean --output"
    ),
    "plan pause": Syntax("pause a running plan: its steps stop at the end of their turn", "plan --now --output"),
    "plan cancel": Syntax("cancel a plan or one of its steps, for good", "plan step:cancel --output"),
    "plan decide": Syntax("answer a decision a plan waits for", "plan decision options --output"),
    "plan approve": Syntax("approve or deny a tool call of a running plan", "plan request --deny --reason --output"),
    "plan retry": Syntax(
        "rerun a step; if the plan is not running, also its dependents, on the next resume",
        "plan step --message --output",
    ),
    "plan skip": Syntax("skip a step: its dependents still run", "plan step --output"),
    "plan steer": Syntax("send a message to a step's agent, read before its next turn", "plan step text --output"),
    "plan rewind": Syntax("like retry, with the files as they were before the step", "plan step --wait --output"),
    "plan edit": Syntax(
        "change a plan's steps or budget, while it runs or between runs; default: in an editor",
        f"plan --operations|--file|--ask {LIMITS} --reason:edit --trust:plan --output",
    ),
    "agents": Syntax("list the agent profiles"),
    "agents list": Syntax("list the agents", LISTING),
    "setup": Syntax(
        "choose a provider and a model, save the key, and test it",
        "--provider --key-from --model:setup --key-store --forget-key --no-test --output",
    ),
    "config": Syntax("show and change settings"),
    "config show": Syntax("print all settings", "--origin --workdir --output --trust"),
    "config get": Syntax("print one setting or table", "key:get --workdir --output --trust"),
    "config path": Syntax("print the path of the settings file", "--project --workdir"),
    "config set": Syntax("set one key; the rest of the file is unchanged", "key value --project --workdir"),
    "config edit": Syntax("open the settings file in $EDITOR; it is checked before it is saved", "--project --workdir"),
    "models": Syntax(
        "list configured models and what their providers offer", f"--online:models --provider:models {LISTING}"
    ),
    "tools": Syntax("list the tools"),
    "tools list": Syntax("list the tools; for MCP servers: vibe mcp list", f"--agent {LISTING}"),
    "events": Syntax("follow runs on this machine and answer their requests"),
    "events list": Syntax("list the runs publishing events now", "--output"),
    "events schema": Syntax("print the JSON Schema of all events"),
    "events tail": Syntax("print the events of a run until it ends", "source --topic --from:event --output"),
    "events answer": Syntax(
        "list the requests of a run, or answer one", "source:answer request:answer answer --reason:answer --by --output"
    ),
    "events export": Syntax(
        "send a run, or its journal, to an OpenTelemetry receiver", "source --otlp --content --output"
    ),
    "events watch": Syntax("watch another process's run until it ends", "source"),
    "dashboard": Syntax(
        "show all runs on this machine and answer what waits for you", f"--plain:runs|--follow:runs {PAGE} --output"
    ),
    "memory": Syntax("show and change what later conversations remember"),
    "memory list": Syntax("list the facts about this project and about everything", "--output --workdir"),
    "memory add": Syntax("add a fact", "text:note --global --workdir"),
    "memory remove": Syntax("remove a fact", "id --workdir"),
    "skills": Syntax("list the skills"),
    "skills list": Syntax("list the skills available here", LISTING),
    "trust": Syntax("choose which folders' .vibe may be loaded"),
    "trust add": Syntax("trust a folder and everything below it; its .vibe can run programs as you", "dir"),
    "trust remove": Syntax("stop trusting a folder", "dir"),
    "trust list": Syntax("list the trusted folders", "--output"),
    "session": Syntax("show, search, export, fork, rename and delete saved conversations"),
    "session list": Syntax("list the sessions, newest first", "--here --output"),
    "session show": Syntax("print a session, one numbered line per message", "session --output"),
    "session search": Syntax("find words in titles and messages", "words:search --here --output"),
    "session export": Syntax("print a whole conversation", "session --format:session -o:session"),
    "session rename": Syntax("give a session another title", "session title"),
    "session fork": Syntax("save a session, or its beginning, as another", "session message:fork --output"),
    "session delete": Syntax("delete sessions", "sessions --output"),
    "session prune": Syntax("delete old sessions", "--older-than --dry-run:clean --output"),
    "session rewind": Syntax("fork a session before one of its messages", "session message --files --wait --output"),
    "mcp": Syntax("manage MCP servers, or serve as one"),
    "mcp list": Syntax("connect to each configured server and list its tools", LISTING),
    "mcp add": Syntax(
        "add a server to the settings; nothing is started",
        "name:new target --env --header --key-env --project --workdir",
    ),
    "mcp remove": Syntax("remove a server from the settings", "name --project --workdir"),
    "mcp import": Syntax("add servers from another agent's JSON file", "file:servers --project --workdir"),
    "mcp login": Syntax(
        "sign in to a server in a browser", "--no-browser --client-id --port --timeout name --workdir --trust"
    ),
    "mcp logout": Syntax("delete the tokens of a server", "name --workdir --trust"),
    "mcp serve": Syntax(
        "serve vibe to other agents as an MCP server on stdin and stdout", f"--http --auto-approve/--yolo {GIVEN}"
    ),
    "usage": Syntax("sum up the tokens and the cost of conversations and plans", "--days --by:usage --output"),
    "permissions": Syntax("explain whether a tool call is allowed"),
    "permissions explain": Syntax(
        "say whether a call is allowed, asked about or denied, and why",
        f"tool arguments --agent --auto-approve/--yolo {FOLDERS} --json",
    ),
    "cluster": Syntax("do steps of plans on several machines"),
    "cluster certs": Syntax(
        "write the certificates by which the machines of a cluster know each other", "dir:certificates"
    ),
    "cluster scheduler": Syntax(
        "run the scheduler that runs and workers connect to, until Ctrl-C", "address:listen --certificates"
    ),
    "cluster worker": Syntax(
        "do steps here for the runs of a cluster, until Ctrl-C",
        "address:scheduler --certificates --slots --label --resource --folder",
    ),
    "cluster status": Syntax("list the workers, and what they do", "address:scheduler --certificates --json:status"),
    "doctor": Syntax("check settings, keys, sandbox and programs", f"--online --cluster:doctor {LISTING}"),
    "completions": Syntax("print a completion script for a shell", "shell --names"),
    "help": Syntax("show help for a command", "words:help"),
    "migrate": Syntax("remove settings of Mistral Vibe that have no effect here", "--dry-run:clean --workdir:migrate"),
})
"""Every command except a bare prompt, keyed by its words."""
COMMANDS = MappingProxyType({name: command.about for name, command in GRAMMAR.items() if " " not in name})
"""The first words of all commands; a command line that begins with anything else is a prompt."""
PROMPTING = "(a prompt is given with `vibe -p PROMPT`; see `vibe --help`)"
ASKING = ("-p", "--prompt", "--prompt-file")
NO_MORE_WORDS = 2
NEAR = 0.75
ELSEWHERE = {
    **dict.fromkeys(("auth", "login"), "use `vibe setup`"),
    **dict.fromkeys(("chat", "exec"), "use `vibe -p PROMPT`"),
    "init": "use `vibe setup` to choose provider, key and model",
    "resume": "use `vibe --resume [ID] -p PROMPT`, or `vibe plan resume ID`",
    "run": "use `vibe plan run FILE`",
    **dict.fromkeys(("update", "upgrade"), "update it with the program that installed it"),
    "version": "use `vibe --version`",
}
"""Commands that similar programs have, with what to do instead."""


def read_words(words: Sequence[str], args: Namespace) -> None:
    """Parse the words of a command line into ``args``.

    Raises:
        TextRequested: the words ask for help.
        CommandLineError: the words are wrong.
    """
    parser_of(words).parse_args(words, args)
    if words[:1] == ["help"]:
        if args.words and args.words[0] not in COMMANDS:
            near = did_you_mean(closest(args.words[0], COMMANDS), "`vibe --help` lists them")
            raise CommandLineError(f"unknown command {args.words[0]!r}: {near}")
        parser_of(args.words).parse_args([*args.words, "--help"])
    line = " ".join(getattr(args, "words", ())[:2])
    if line in GRAMMAR and words[0] not in COMMANDS and args.prompt is None:
        raise CommandLineError(f"`vibe {line}` is a command: write its options behind it {PROMPTING}")


def parser_of(words: Sequence[str]) -> Parser:
    """Return the parser for the command that the words begin with, or else the parser for a prompt.

    Raises:
        CommandLineError: the first word looks like a command but isn't one.
    """
    parser = Parser(prog="vibe", description=PROMPT.about)
    if words[:1] == ["plan"] and re.search(r"[ ./]", word := "".join(words[1:2])) and not word.startswith("-"):
        raise CommandLineError(f"`vibe plan` needs a command before {word[:80]!r}: `new` for a goal, `run` for a file")
    if words and words[0] in COMMANDS:
        commands = parser.add_subparsers(dest="command", parser_class=Parser)
        _add_command(commands, words[0], words[0])
        return parser
    refusal = _refusal(words)
    if refusal:
        raise CommandLineError(f"{refusal} {PROMPTING}")
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {about}" for name, about in COMMANDS.items())
    parser.epilog = f"commands:\n{listed}\n\nSee `vibe COMMAND --help` for each."
    parser.formatter_class = RawDescriptionHelpFormatter
    _add_arguments(parser, PROMPT.arguments)
    return parser


def below(name: str) -> dict[str, Syntax]:
    """Return the subcommands of a command, keyed by their last word."""
    return {line.partition(" ")[2]: command for line, command in GRAMMAR.items() if line.startswith(f"{name} ")}


def spellings(name: str) -> list[str]:
    """Return the spellings of an argument: all forms of an option, or the name of a positional argument."""
    return name.partition(":")[0].split("/")


def _add_command(commands: Any, word: str, name: str) -> None:
    """Add a command, with its arguments and its subcommands; the chosen one is stored as ``subcommand``."""
    about, arguments = GRAMMAR[name]
    parser = commands.add_parser(word, help=about, description=f"{about[0].upper()}{about[1:]}.")
    _add_arguments(parser, arguments)
    if known := below(name):
        within = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        for each in known:
            _add_command(within, each, f"{name} {each}")


def _add_arguments(parser: Parser, names: str) -> None:
    for group in (each.split("|") for each in names.split()):
        to = parser.add_mutually_exclusive_group() if len(group) > 1 else parser
        for name in group:
            to.add_argument(*spellings(name), **ARGUMENTS[name])


def _refusal(words: Sequence[str]) -> str | None:
    """Return an error message if the first word looks like a command but isn't one."""
    if not words or not re.fullmatch(r"[A-Za-z][A-Za-z-]*", words[0]) or any(word in ASKING for word in words):
        return None
    word = words[0].lower()
    near = closest(word, COMMANDS, cutoff=NEAR)
    if near:
        return f"unknown command {words[0]!r}: {did_you_mean(near)}"
    if word in ELSEWHERE and len([given for given in words if not given.startswith("-")]) <= NO_MORE_WORDS:
        return f"unknown command {words[0]!r}: {ELSEWHERE[word]}"
    return None
