"""``vibe session list|show|export|rewind``: saved conversations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.core.config.paths import VibePaths, in_utf8
from vibe.core.messages import AssistantMessage, Message, ToolMessage
from vibe.core.session.folder import SavedSession, SessionLoader, Transcript, lock_session
from vibe.core.session.rewind import RewindManager, RewindReport
from vibe.front.event_text import one_line
from vibe.front.listings import restored_lines
from vibe.system.plain_text import plain

FENCE = "````"
SHOWN_ID = 12
"""Characters of an id in the list; enough to name a session."""


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the sessions, the newest first."""
    listing = _loader(env).all()
    here = str(env.cwd.resolve())
    sessions = [saved for saved in listing.sessions if not args.here or saved.meta.workspace == here]
    for problem in listing.problems:
        env.stderr.write(f"warning: {one_line(problem, 1_000)}\n")
    lines = [f"{saved.meta.session_id[:SHOWN_ID]}  {_line(saved)}" for saved in sessions]
    none = ["no sessions yet: start one with `vibe -p PROMPT`"]
    env.answer(args, [_document(saved) for saved in sessions], lines or none)


def run_show(args: Arguments, env: CliEnvironment) -> None:
    """Print a session, a line for each message."""
    saved = _loader(env).find(args.session)
    messages = Transcript.peek(saved.folder.transcript).messages
    env.answer(args, _whole(saved, messages), _shown(saved, messages))


def run_export(args: Arguments, env: CliEnvironment) -> None:
    """Print a whole conversation."""
    saved = _loader(env).find(args.session)
    messages = Transcript.peek(saved.folder.transcript).messages
    if args.format == "json":
        env.write_json(_whole(saved, messages))
        return
    document = "\n".join(_markdown(saved, messages)) + "\n"
    env.stdout.write(plain(document) if env.stdout.isatty() else document)


def _loader(env: CliEnvironment) -> SessionLoader:
    return SessionLoader(VibePaths(env.home).sessions)


def _whole(saved: SavedSession, messages: list[Message]) -> dict[str, Any]:
    return {**_document(saved), "messages": msgspec.to_builtins(messages)}


def _line(saved: SavedSession) -> str:
    meta = saved.meta
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(saved.updated))
    return f"{when}  {meta.outcome or 'not ended'}  {one_line(meta.workspace, 60)}  {one_line(meta.title, 60)}".rstrip()


def _shown(saved: SavedSession, messages: list[Message]) -> Iterator[str]:
    meta = saved.meta
    yield f"session {meta.session_id}" + (f", forked from {meta.parent_id}" if meta.parent_id else "")
    yield _line(saved)
    commit = f", commit {meta.git_commit[:10]}" if meta.git_commit else ""
    branch = f", branch {one_line(meta.git_branch)}" if meta.git_branch else ""
    cost = "unknown cost" if meta.cost_usd is None else f"${meta.cost_usd:.4f}"
    used = f"{meta.usage.total_tokens} tokens, {cost}"
    model = f" with {one_line(meta.model)}" if meta.model else ""
    yield f"{one_line(meta.agent)}{model}, {used}{branch}{commit}"
    for index, message in enumerate(messages):
        yield f"{index:>4}  {_who(message)}: {one_line(_summary(message), 120)}"
    yield f"continue with: vibe --resume {meta.session_id[:SHOWN_ID]} -p PROMPT"


def _summary(message: Message) -> str:
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = ", ".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
        return f"{message.content} [{calls}]".strip()
    return message.content


def _who(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return f"{one_line(message.name)} ({message.status})"
    return str(message.__struct_config__.tag)


def _markdown(saved: SavedSession, messages: list[Message]) -> Iterator[str]:
    yield f"# {one_line(saved.meta.title) or saved.meta.session_id}"
    yield f"\nSession {saved.meta.session_id}, {_line(saved)}"
    for message in messages:
        yield f"\n## {_who(message)}\n"
        if isinstance(message, ToolMessage):
            yield f"{FENCE}\n{message.content}\n{FENCE}"
            continue
        if message.content:
            yield message.content
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            yield f"\n{FENCE}json\n{call.name} {call.arguments}\n{FENCE}"


def _document(saved: SavedSession) -> dict[str, Any]:
    return {**msgspec.to_builtins(saved.meta), "updated": saved.updated}


def run_rewind(args: Arguments, env: CliEnvironment) -> int:
    """Fork a session before one of its messages; exit code 1 if a file could not be restored."""
    saved = _loader(env).find(args.session)
    manager = RewindManager(VibePaths(env.home).sessions, env.environ, env.own_places)
    act = partial(manager.rewind, saved, args.message, files=args.files)
    with lock_session(saved.folder):
        turn = env.as_writer().turn([Path(saved.meta.workspace)], "vibe session rewind")
        report = anyio.run(turn.act, env.tell, act) if args.files else act()
    files = msgspec.to_builtins(report.files, enc_hook=in_utf8)
    files = {**files, "skipped": list(report.files.skipped), "reasons": dict(report.files.skipped)}
    env.answer(args, {"session_id": report.session_id, "messages": report.messages, **files}, _rewound(report))
    return ExitCode.FAILED if report.files.skipped else ExitCode.DONE


def _rewound(report: RewindReport) -> Iterator[str]:
    yield from restored_lines(report.files)
    yield f"continue with: vibe --resume {report.session_id[:SHOWN_ID]} -p PROMPT"
