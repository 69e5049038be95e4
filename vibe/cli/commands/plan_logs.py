"""``vibe plan logs ID [STEP]``: prints the output of a plan's commands and checks, and its agents' transcripts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from planner.plan.for_each import pattern_named
from planner.store.current_plan import effective_plan
from planner.store.folder import PlanFolder, find_plan
from subagents.step.command_runner import LOG_FILE
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.streams import has_failed
from vibe.core.messages import AssistantMessage, Message, ToolMessage
from vibe.core.session.folder import Transcript, TranscriptError
from vibe.system.errors import UsageError
from vibe.system.files import entries_of, regular_file
from vibe.system.plain_text import one_line, plain
from vibe.system.redaction import redact

POLL_SECONDS = 0.2
CHUNK_BYTES = 1024 * 1024
CALL_LENGTH = 400
TRANSCRIPTS = "messages*.jsonl"


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print the log; with ``--follow``, continue while the plan runs."""
    folder = find_plan(env.home, args.plan)
    logs = {step_id: _StepLog(folder, step_id, env) for step_id in _steps(folder, args.step)}
    last: _StepLog | None = None
    while True:
        runs = args.follow and folder.holder() is not None  # asked first, so that the last round prints everything
        for step_id in _meant(_begun(folder), args.step):  # steps for a list's items appear while the plan runs
            if step_id not in logs:
                logs[step_id] = _StepLog(folder, step_id, env)
        for log, text in ((one, text) for one in logs.values() for text in one.fresh()):
            if log is not last and log.step_id != args.step:
                env.stdout.write(f"### {log.step_id}\n")
            env.stdout.write(text)
            last = log
        env.stdout.flush()
        if not runs or has_failed(env.stdout):
            break
        time.sleep(POLL_SECONDS)
    if last is None:
        what = f"step {args.step!r}" if args.step else f"plan {folder.plan_id}"
        env.stderr.write(f"vibe: {what} has no output yet\n")


def _steps(folder: PlanFolder, wanted: str | None) -> list[str]:
    """Return the steps to print, in plan order, without those that a revision removed.

    Raises:
        UsageError: there is no such step.
    """
    known = [step.id for step in effective_plan(folder).plan.steps]
    if wanted is not None and wanted not in known and wanted not in _begun(folder):
        raise UsageError(f"plan {folder.plan_id} has no step {wanted!r}; its steps: {', '.join(known)}")
    return _meant(known, wanted)


def _begun(folder: PlanFolder) -> list[str]:
    """Return the steps that have left something on disk."""
    return sorted(entry.name for entry in entries_of(folder.step_folder("-").parent))


def _meant(step_ids: Iterable[str], wanted: str | None) -> list[str]:
    """Return the wanted ones of these steps; a list step includes the steps for its items."""
    return [step_id for step_id in step_ids if wanted in {None, step_id, pattern_named(step_id)}]


class _StepLog:
    """The output of one step; each call of ``fresh`` yields what is new."""

    def __init__(self, folder: PlanFolder, step_id: str, env: CliEnvironment) -> None:
        self.step_id = step_id
        self._folder = folder.step_folder(step_id)
        self._environ = env.environ
        self._printed: dict[Path, int] = {}
        self._offset = 0

    def fresh(self) -> Iterator[str]:
        """Yield new text that is safe to print, each piece ending a line."""
        for path in sorted(self._folder.glob(TRANSCRIPTS)):
            yield from self._conversation(path)
        yield from self._output(self._folder / LOG_FILE)

    def _conversation(self, path: Path) -> Iterator[str]:
        try:
            messages = Transcript.peek(path).messages
        except TranscriptError:
            return
        printed = self._printed.get(path, 0)
        self._printed[path] = len(messages)
        for message in messages[min(printed, len(messages)) :]:
            if text := _said(message):
                yield _safe(redact(text, self._environ)) + "\n"

    def _output(self, path: Path) -> Iterator[str]:
        with suppress(OSError), regular_file(path) as file:
            file.seek(self._offset)
            while data := file.read(CHUNK_BYTES):
                end = data.rfind(b"\n") + 1 or len(data)
                self._offset += end
                file.seek(self._offset)
                yield _safe(data[:end].decode(errors="replace"))


def _said(message: Message) -> str:
    match message:
        case AssistantMessage():
            calls = [f"-> {call.name} {one_line(call.arguments, CALL_LENGTH)}" for call in message.tool_calls]
            return "\n".join([*([message.content] if message.content else []), *calls])
        case ToolMessage():
            return message.content
        case _:
            return ""  # the agent's instructions are in the plan


def _safe(text: str) -> str:
    """Remove escape sequences and invisible characters; of a line that was overwritten, keep only the last version.

    Most lines have none and are returned as they are.
    """
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join(line if line.isprintable() else plain(line) for line in lines)
