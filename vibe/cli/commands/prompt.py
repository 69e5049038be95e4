"""``vibe -p PROMPT``: answer one prompt; stdout is the answer and nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import anyio

from ipc.sink import EventSink
from vibe.app.host import Host
from vibe.app.result_record import RunRecord
from vibe.app.run_chat import ChatRequest, run_chat
from vibe.cli.arguments import existing_folder, positive_int, positive_number
from vibe.cli.environment import CliEnvironment
from vibe.cli.output import TROUBLE, JsonLinesSink, LineSink, write_record
from vibe.cli.parser import OUTPUTS, CommandLineError


def add_arguments(parser: argparse.ArgumentParser, subcommands: Iterable[str]) -> None:
    """Add the words of a prompt run."""
    parser.epilog = f"Commands: {', '.join(f'vibe {name}' for name in subcommands)}; each has its own --help."
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="what to do; with -p or from a pipe")
    parser.add_argument(
        "-p", "--prompt", nargs="?", const="", metavar="PROMPT", help="answer and exit; '-': from stdin"
    )
    parser.add_argument("--output", choices=OUTPUTS, default="text", help="what stdout carries (default: text)")
    parser.add_argument("--agent", default="default", metavar="NAME", help="agent profile")
    parser.add_argument("--model", metavar="ALIAS", help="model to use")
    parser.add_argument(
        "--auto-approve", "--yolo", action="store_true", help="do whatever no rule denies, without asking"
    )
    parser.add_argument("--max-turns", type=positive_int, metavar="N", help="stop after so many model calls")
    parser.add_argument("--max-tokens", type=positive_int, metavar="N", help="stop before more tokens are used")
    parser.add_argument("--max-price", type=positive_number, metavar="USD", help="stop before more is spent")
    parser.add_argument(
        "--enabled-tools",
        action="append",
        metavar="PATTERN",
        help="only these tools (name, glob or re:...); repeatable",
    )
    parser.add_argument("--workdir", metavar="DIR", help="work here instead of in the current directory")
    parser.add_argument("--add-dir", action="append", default=[], metavar="DIR", help="another folder to work in")
    parser.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this run")
    parser.add_argument("--version", "-V", action="store_true", help="print the version")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Answer the prompt and return the exit code of its record."""
    prompt = _prompt(args, env)
    request = ChatRequest(
        prompt=prompt,
        workdir=existing_folder("--workdir", args.workdir, env.cwd),
        extra_roots=tuple(existing_folder("--add-dir", folder, env.cwd) for folder in args.add_dir),
        agent=args.agent,
        model=args.model,
        auto_approve=args.auto_approve,
        max_turns=args.max_turns,
        max_tokens=args.max_tokens,
        max_price=args.max_price,
        flags=_flags(args),
        trust=args.trust,
    )
    streaming = args.output == "streaming"
    listener: EventSink = JsonLinesSink(env.stdout) if streaming else LineSink(env.stderr, TROUBLE)
    host = Host(home=env.home, environ=env.environ, runtime_dir=env.runtime_dir)
    record = anyio.run(run_chat, request, host, [listener])
    _print(record, args.output, env)
    return record.exit_code


def _prompt(args: argparse.Namespace, env: CliEnvironment) -> str:
    """The words after -p, and whatever a pipe brings, in that order."""
    given = " ".join(part for part in (args.prompt or "", *args.words) if part and part != "-").strip()
    wants_stdin = args.prompt == "-" or (not given and not env.stdin.isatty())
    if args.prompt is None and given and env.stdin.isatty():
        raise CommandLineError("the terminal UI is not part of this version: use `vibe -p PROMPT`")
    piped = env.stdin.read().strip() if wants_stdin else ""
    prompt = "\n\n".join(part for part in (given, piped) if part)
    if not prompt:
        raise CommandLineError("no prompt: give one with `vibe -p PROMPT`, or pipe it in; see `vibe --help`")
    return prompt


def _flags(args: argparse.Namespace) -> dict[str, Any]:
    return {"enabled_tools": args.enabled_tools} if args.enabled_tools else {}


def _print(record: RunRecord, output: str, env: CliEnvironment) -> None:
    if output != "text":
        write_record(record, env.stdout, indent=2 if output == "json" else None)
        return
    if record.result:
        env.stdout.write(record.result.rstrip("\n") + "\n")
    if record.exit_code:
        why = record.detail or record.reason or "no reason given"
        env.stderr.write(f"vibe: {record.outcome.value}: {why}\n")
