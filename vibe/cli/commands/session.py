"""``vibe session``: shows, searches, exports, forks, renames and deletes saved conversations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.core.config.dotenv import read_env_file
from vibe.core.config.paths import VibePaths, in_utf8
from vibe.core.messages import AssistantMessage, Message, ToolMessage
from vibe.core.session.folder import SavedSession, SessionListing, SessionLoader, Transcript, lock_session
from vibe.core.session.keeping import FoundPlace, delete_sessions, prune_sessions, rename_session, search_sessions
from vibe.core.session.rewind import RewindManager
from vibe.front.listings import restored_lines
from vibe.system.errors import UsageError, os_error_as, remedy
from vibe.system.files import PRIVATE, put_file
from vibe.system.plain_text import date_text, one_line, plain
from vibe.system.redaction import each_text, redact

FENCE = "````"
_PAGE_STYLE = ".said{white-space:pre-wrap;unicode-bidi:plaintext}summary{cursor:pointer;color:var(--soft)}"
SHOWN_ID = 12
"""Characters of an id shown in lists; enough to identify a session."""


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the sessions, newest first."""
    sessions = _chosen(args, env)
    lines = [_listed(saved) for saved in sessions] or ["no sessions yet: start one with `vibe -p PROMPT`"]
    env.answer(args, [_document(saved) for saved in sessions], lines)


def run_show(args: Arguments, env: CliEnvironment) -> None:
    """Print a session, one line per message."""
    saved, messages = _opened(args, env)
    env.answer(args, _whole(saved, messages), _shown(saved, messages))


def run_export(args: Arguments, env: CliEnvironment) -> None:
    """Print a whole conversation, or write it to a file."""
    saved, messages = _opened(args, env)
    document = _exported(args.format, saved, messages, _mask(env))
    if args.file not in {None, "-"}:
        with os_error_as(lambda error: UsageError(f"-o {args.file}: {error.strerror}; {remedy(error)}")):
            put_file(env.file_to_write("-o", args.file), document.encode("utf-8", "replace"), mode=PRIVATE)
    else:
        env.stdout.write(plain(document) if env.stdout.isatty() else document)


def _exported(form: str, saved: SavedSession, messages: list[Message], masked: Callable[[str], str]) -> str:
    """Return a whole conversation in the chosen format, without secrets."""
    if form == "html":
        return _page(saved, messages, masked)
    if form == "json":
        return json.dumps(each_text(_whole(saved, messages), masked), indent=2, ensure_ascii=False) + "\n"
    return masked("\n".join(_markdown(saved, messages)) + "\n")


def _page(saved: SavedSession, messages: list[Message], masked: Callable[[str], str]) -> str:
    """Return a conversation as one HTML file without scripts or external resources; all text is escaped."""
    from planner.report.formatting import escaped, escaped_line  # noqa: PLC0415  only HTML pages need it
    from planner.report.graph_svg import style_sheet  # noqa: PLC0415  as above
    from planner.report.html import page  # noqa: PLC0415  as above

    title = escaped_line(masked(saved.meta.title), 80) or escaped(saved.meta.session_id)
    parts = [f'<h1>{title}</h1><p class="note">{escaped_line(masked(_line(saved)))}</p>']
    for number, message in enumerate(messages):
        content = escaped(masked(message.content))
        if isinstance(message, ToolMessage):
            parts.append(f"<details><summary>{escaped_line(_who(message))}</summary><pre>{content}</pre></details>")
            continue
        parts.append(f'<h2>{number} {_who(message)}</h2><div class="said">{content}</div>')
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        parts += (f"<pre>{escaped_line(call.name)} {escaped(masked(call.arguments))}</pre>" for call in calls)
    return page(title, f"{style_sheet('page')}\n{_PAGE_STYLE}", parts)


def _mask(env: CliEnvironment) -> Callable[[str], str]:
    """Return a function that removes the values of secret variables, and anything that looks secret, from text."""
    path = VibePaths(env.home).env_file
    return partial(redact, environ={**read_env_file(path, str(path)).values, **env.environ})


def run_search(args: Arguments, env: CliEnvironment) -> None:
    """Print each place that contains all the words."""
    masked = _mask(env)
    found = list(search_sessions(_chosen(args, env), args.words, masked, env.tell))
    lines = (f"{one.session.meta.session_id[:SHOWN_ID]}  {_when(one.session)}  {_place(one)}" for one in found)
    env.answer(args, each_text([_found_document(one) for one in found], masked), lines)
    if not found and args.output == "text":
        env.tell("no session has these words")


def _place(found: FoundPlace) -> str:
    number = "title" if found.message is None else f"{found.message:>5}"
    return f"{number}  {one_line(found.line)}"


def _found_document(found: FoundPlace) -> dict[str, Any]:
    meta = found.session.meta
    about = {"session_id": meta.session_id, "title": meta.title, "workspace": meta.workspace}
    return {**about, "updated": found.session.updated, "message": found.message, "line": found.line}


def run_rename(args: Arguments, env: CliEnvironment) -> None:
    """Change a session's title."""
    saved = _loader(env).find(args.session, env.cwd)
    title = rename_session(saved, " ".join(args.title))
    env.write_lines([f"{saved.meta.session_id[:SHOWN_ID]}  {one_line(title)}"])


def run_fork(args: Arguments, env: CliEnvironment) -> None:
    """Save a session, or its part before one of its messages, as another; print the new id."""
    saved, messages = _opened(args, env)
    count = len(messages) if args.message is None else args.message
    report = RewindManager(env.environ, outcome="forked").rewind(saved, count, files=False)
    env.answer(args, {"session_id": report.session_id, "messages": report.messages}, [report.session_id])


def run_delete(args: Arguments, env: CliEnvironment) -> None:
    """Delete all the named sessions, or none."""
    loader = _loader(env)
    found = [loader.find(session, env.cwd) for session in args.sessions]
    chosen = {saved.meta.session_id: saved for saved in found}
    delete_sessions([*chosen.values()], loader.all())
    env.answer(args, {"deleted": [*chosen]}, (f"deleted {_listed(saved)}" for saved in chosen.values()))


def run_prune(args: Arguments, env: CliEnvironment) -> None:
    """Delete old sessions."""
    if args.older_than is None:
        raise CommandLineError("say how old, such as --older-than 30d")
    done = prune_sessions(_all(env), time.time() - args.older_than, dry_run=args.dry_run)
    kept = [{"session_id": saved.meta.session_id, "reason": reason} for saved, reason in done.kept]
    document = {"deleted": [one.meta.session_id for one in done.deleted], "kept": kept, "dry_run": args.dry_run}
    did = "would delete" if args.dry_run else "deleted"
    lines = [f"{did} {_listed(saved)}" for saved in done.deleted] + [f"kept: {reason}" for _, reason in done.kept]
    env.answer(args, document, lines or ["no session is that old"])


def _listed(saved: SavedSession) -> str:
    return f"{saved.meta.session_id[:SHOWN_ID]}  {_line(saved)}"


def _chosen(args: Arguments, env: CliEnvironment) -> list[SavedSession]:
    """Return all sessions, or those of the current directory."""
    return [saved for saved in _all(env).sessions if not args.here or saved.is_of(env.cwd)]


def _opened(args: Arguments, env: CliEnvironment) -> tuple[SavedSession, list[Message]]:
    """Return the named session and its messages, with a warning if they are damaged at the end."""
    saved = _loader(env).find(args.session, env.cwd)
    transcript = Transcript.peek(saved.folder.transcript)
    if transcript.dropped_bytes:
        env.tell(f"warning: {transcript.dropped_bytes} bytes at the end are no whole message, and are left out")
    return saved, transcript.messages


def _all(env: CliEnvironment) -> SessionListing:
    """Return every session, with warnings about folders that can't be read."""
    listing = _loader(env).all()
    env.warn(listing.problems)
    return listing


def _loader(env: CliEnvironment) -> SessionLoader:
    return SessionLoader(VibePaths(env.home).sessions)


def _whole(saved: SavedSession, messages: list[Message]) -> dict[str, Any]:
    return {**_document(saved), "messages": msgspec.to_builtins(messages)}


def _line(saved: SavedSession) -> str:
    meta = saved.meta
    place = f"{one_line(meta.workspace, 60)}  {one_line(meta.title, 60)}"
    return f"{_when(saved)}  {meta.outcome or 'not ended'}  {place}".rstrip()


def _when(saved: SavedSession) -> str:
    return date_text(saved.updated, "%Y-%m-%d %H:%M")


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
    """Fork a session before one of its messages; the exit code is 1 if a file could not be restored."""
    saved = _loader(env).find(args.session, env.cwd)
    manager = RewindManager(env.environ, env.own_places)
    act = partial(manager.rewind, saved, args.message, files=args.files)
    with lock_session(saved.folder):
        turn = env.as_writer().turn([Path(saved.meta.workspace)], "vibe session rewind")
        report = anyio.run(turn.act, env.tell, act) if args.files else act()
    files = msgspec.to_builtins(report.files, enc_hook=in_utf8)
    files = {**files, "skipped": list(report.files.skipped), "reasons": dict(report.files.skipped)}
    restored = restored_lines(report.files) or ["no recorded file has changed since"] * args.files
    lines = [*restored, f"continue with: vibe --resume {report.session_id[:SHOWN_ID]} -p PROMPT"]
    env.answer(args, {"session_id": report.session_id, "messages": report.messages, **files}, lines)
    return ExitCode.FAILED if report.files.skipped else ExitCode.DONE
