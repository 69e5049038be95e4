"""bash: runs one shell line without a terminal, within limits of time and output."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar

from anyio import Event, to_thread
from msgspec import Struct, structs
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from ipc.events import CommandDisplay
from vibe.core.tools.base import (
    BaseTool,
    BaseToolConfig,
    BaseToolState,
    InvokeContext,
    ToolArgs,
    ToolError,
    ToolStreamLine,
)
from vibe.core.tools.errors import PathError, ReadOnlyRefusedError
from vibe.core.tools.permissions import Assessment, ToolPermission
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.parser import parse_line
from vibe.shell.policy.paths import SKIPPED_FOLDERS, candidates, path_parts
from vibe.shell.policy.project_checks import covered_commands
from vibe.shell.policy.verdict import (
    DEFAULT_ALLOWED,
    DEFAULT_DENIED,
    DEFAULT_DENIED_STANDALONE,
    BashVerdict,
    ConfinedReading,
    classify,
)
from vibe.shell.process.confined import MOST_STARTS, ConfinedCommand, shell_command
from vibe.shell.process.kept_state import ShellState, Surroundings, folder_problem, next_state
from vibe.shell.process.port import CommandOrder, StartedCommand
from vibe.shell.process.runner import NOT_INTERACTIVE, PROCESSES, OutputLimit, child_environ
from vibe.shell.sandbox.confinement import Place
from vibe.shell.sandbox.port import LIMITS, LOOKING, ReadOnlyUnavailableError, ResourceLimits
from vibe.shell.sandbox.refusals import lacking
from vibe.system.plain_text import shortened
from vibe.system.programs import find_shell
from vibe.system.redaction import Mask

MOST_FOLDERS = 64
"""The most folders in which a line's ``cd`` commands may end up that are considered."""
MOST_ENTRIES = 20_000
"""The most entries of the workspace that are searched for files to hide."""


def named_unread(line: str, workspace: Workspace, start: tuple[str, ...] = ()) -> str:
    """Return the first word of a line that names a file ``read_file`` may not read, or an empty string.

    The line begins in the folder ``start``. A ``cd`` in it is assumed to lead to any place it may. Reads the file
    system.
    """
    if not workspace.bounds.unread:
        return ""
    parsed = parse_line(line)
    folders = [workspace.root.joinpath(*start)]
    words: list[tuple[str, bool]] = [(text, False) for text in parsed.inputs]
    for command in parsed.commands:
        words += [(word.text, word.pattern) for word in command.words if word.text]
        if command.argv[:1] == ("cd",) and len(command.argv) == 2:
            folders = [*folders, *(folder / command.argv[1] for folder in folders)][:MOST_FOLDERS]
    for text, pattern in dict.fromkeys(words):
        for part in path_parts(text):
            if any(_is_unread(part, folder, workspace, pattern=pattern) for folder in folders):
                return text
    return ""


def _is_unread(part: str, folder: Path, workspace: Workspace, *, pattern: bool) -> bool:
    home = (os.path.expanduser(part),) if part.startswith("~") else ()  # noqa: PTH111  text: what the shell would pass
    for candidate in (*home, *candidates(part, folder, pattern=pattern)):
        with suppress(PathError):
            if candidate is not None and workspace.is_unread(workspace.resolve(candidate), candidate):
                return True
    return False


def unread_files(workspace: Workspace) -> tuple[Path, ...]:
    """Return the existing files that ``read_file`` may not read, below the workspace's folders.

    Reads the file system.
    """
    if not workspace.bounds.unread:
        return ()
    roots = (workspace.root, *workspace.extra_roots)
    return tuple(entry for root in roots for entry in islice(_below(root), MOST_ENTRIES) if workspace.is_unread(entry))


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        yield from (Path(folder, name) for name in files)


SUMMARY_LENGTH = 200
"""The most characters of a line in its summary."""
PROMPTS = Path(__file__).with_name("prompts")
FRESH_SHELL = "Each call starts afresh in the workspace root: no terminal, no input, nothing stays running after it"
"""The sentence in the prompt about a shell that is not stateful."""
FRESH_NOTE = "a fresh shell, begun in the workspace root: nothing is kept from before"
"""The note on the first line of a stateful shell."""
NO_BASH = "There is no bash here: /bin/sh runs the lines, so write them for that."
"""The sentence in the prompt on a machine without bash."""
READ_ONLY_NOTE = "[ran without approval in a read-only sandbox, without network or secrets]"
"""The note on a line that ran without being asked about."""
SEEN_BY_READERS = frozenset({
    "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LOGNAME", "PATH", "SHELL", "TERM", "TZ",
    "USER", "VIRTUAL_ENV", *NOT_INTERACTIVE,
})  # fmt: skip
"""The only variables that a line in a read-only sandbox may see, since any other's value may be a secret."""


_BACKGROUND = AliasChoices("background", "run_in_background", "is_background")


class BashArgs(ToolArgs):
    """The shell line, and how it is run."""

    command: Annotated[str, Field(min_length=1)]
    timeout: Annotated[int | None, Field(ge=1, description="seconds")] = None
    background: Annotated[
        bool, Field(validation_alias=_BACKGROUND, description="run on after the call; gives a handle")
    ] = False
    unconfined: Annotated[bool, Field(description="outside the sandbox; a person must agree")] = False


class UnsandboxedBashArgs(BashArgs):
    """The arguments where nothing is confined, so that there is no sandbox to leave."""

    unconfined: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleVariableOverride]  a word no more


class BashResult(BaseModel):
    """The result of a line, even if its ``returncode`` is not 0.

    ``note`` says if the sandbox may have refused something. ``handle`` is set if the line runs on in the background.
    """

    command: str
    stdout: str
    stderr: str
    returncode: int
    duration_s: float = 0.0
    output_files: list[str] = []
    note: str = ""
    handle: str = ""


class BashState(BaseToolState):
    """The state of a stateful shell.

    ``begun`` says that it has run a line. ``lost`` says why it is no longer in its former folder.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    shell: ShellState = ShellState()
    begun: bool = False
    lost: str = ""


_NO_WORDS = re.compile(r"re:.*|\w+\(.*|.*\*|.*(?:;|\s&&?|\s\|\|?)(?:\s.*)?")
"""Entries that are patterns, or more than one command."""


def _first_words(entry: str) -> str:
    """Return an entry of a list without the ``*`` for the rest of the line that other tools want at its end."""
    words = re.sub(r"(?::| +)\*$", "", entry.strip())
    if not words or _NO_WORDS.fullmatch(words):
        raise ValueError(f"{entry!r} would match nothing: give the first words of one command, such as 'git push'")
    return words


_FirstWords = Annotated[str, AfterValidator(_first_words)]


class BashConfig(BaseToolConfig):
    """Limits, and the argv prefixes that run without asking (``allowlist``) or never (``denylist``).

    ``read_only_sandbox`` chooses the lines that run without asking where they can't write, reach the network or see
    secrets: those of programs that read (``readers``), all that need no approval each time (``all``), or none
    (``off``). With ``reads_only``, lines that are not known to only read are denied.

    Programs in ``denylist_standalone`` never run without arguments, unless something is piped into them. With
    ``stateful``, the folder and exported variables are kept from one call to the next.
    """

    allowlist: list[_FirstWords] = Field(default_factory=lambda: list(DEFAULT_ALLOWED))
    denylist: list[_FirstWords] = Field(default_factory=lambda: list(DEFAULT_DENIED))
    denylist_standalone: list[_FirstWords] = Field(default_factory=lambda: list(DEFAULT_DENIED_STANDALONE))
    default_timeout: Annotated[int, Field(ge=1)] = 300
    max_timeout: Annotated[int, Field(ge=1)] = 3_600
    max_output_bytes: Annotated[int, Field(ge=200)] = 16_000
    read_only_sandbox: ConfinedReading = ConfinedReading.READERS
    reads_only: bool = False
    stateful: bool = False


class _RunningLine(Struct, frozen=True, kw_only=True):
    """A running line.

    With ``reports_state``, the shell reports folder and variables at its end, to be compared with those it was given.
    """

    shell: ConfinedCommand
    running: StartedCommand
    around: Surroundings
    reports_state: bool


class Bash(BaseTool[BashArgs, BashResult, BashConfig, BashState]):
    """Runs shell lines, one after another. A stateful line is judged in the folder in which it runs."""

    description: ClassVar[str] = "Run a shell line in the workspace, without a terminal."
    unsandboxed_arguments: ClassVar[type[BaseModel] | None] = UnsandboxedBashArgs

    @classmethod
    def prompt_with(cls, config: BaseToolConfig) -> str | None:
        """Return the prompt, adapted to a stateful shell or to one that starts each line afresh."""
        prompt = super().get_tool_prompt()
        if prompt is not None and not _has_bash():
            prompt = f"{NO_BASH} {prompt}"
        if prompt is None or not (isinstance(config, BashConfig) and _is_stateful(config)):
            return prompt
        return prompt.replace(FRESH_SHELL, (PROMPTS / "bash_stateful.md").read_text(encoding="utf-8").strip())

    async def run(self, args: BashArgs, ctx: InvokeContext) -> AsyncGenerator[ToolStreamLine | BashResult, None]:
        """Run the line to its end, streaming its output.

        Raises:
            ToolError: it took too long, its terminal is gone, or the folder of a stateful shell is gone.
            ReadOnlyRefusedError: it needs more than a read-only sandbox allows.
            CommandStartError: the workspace is gone.
        """
        if args.background:
            yield await self._in_background(args, ctx)
            return
        starts = 0
        while True:
            starts += 1
            line = await self._started(args, ctx)
            printed, to_background, is_moved, sandbox_note = "", Event(), False, ""
            foreground = set[Event]() if ctx.background is None else ctx.background.foreground
            foreground.add(to_background)
            try:
                async for shown in self._stream_output(line.running, ctx.tool_call_id, to_background):
                    printed = (printed + shown.message)[-self.config.max_output_bytes :]
                    yield shown
                is_moved = to_background.is_set()
            finally:
                foreground.discard(to_background)
                if not is_moved:
                    await line.running.stop()
                    sandbox_note = await line.shell.put_aside()
            if is_moved:
                line.running.run_on()
                yield self._move_to_background(args, ctx, line, printed)
                return
            if starts == MOST_STARTS or not line.shell.is_unbegun(line.running.result()):
                break
        result = self._ended(args, ctx, line, sandbox_note)
        if line.reports_state:
            report = line.running.result().report or b""
            result.note = await to_thread.run_sync(self._keep, result.note, report, line, ctx.workspace)
        yield result

    def _ended(self, args: BashArgs, ctx: InvokeContext, line: _RunningLine, sandbox_note: str) -> BashResult:
        """Return the result of a line that has ended. ``sandbox_note`` says what became of its sandbox.

        Raises:
            ToolError: it took too long, or its terminal is gone.
            ReadOnlyRefusedError: it needs more than a read-only sandbox allows.
        """
        finished = line.running.result()
        left = f"[{finished.left_running}; use `background` for what is to run on]" if finished.left_running else ""
        notes = (left, line.shell.note(finished), sandbox_note, READ_ONLY_NOTE if ctx.read_only else "")
        result = BashResult(
            command=args.command,
            stdout=finished.stdout,
            stderr=LIMITS.sub("", finished.stderr),
            returncode=finished.exit_code,
            duration_s=round(finished.duration_s, 3),
            output_files=[str(file) for file in finished.output_files],
            note="\n".join(filter(None, notes)),
        )
        text, exit_code = "", None if finished.lost else finished.exit_code
        if finished.timed_out:
            seconds = self._seconds(args)
            taken = "" if args.timeout in {None, seconds} else f", as which `timeout` {args.timeout} was taken"
            text = f"the command was stopped after {seconds} s{taken}; give a larger timeout, or make it do less"
        elif finished.lost:
            text = f"it is unknown how the command ended: {finished.lost}; check what it did before you run it again"
        if text:
            shown = structs.replace(self.display(result), timed_out=finished.timed_out, exit_code=exit_code)
            raise ToolError(f"{text}\n{_printed(result)}".rstrip()).showing(shown)
        missing = lacking(finished.stdout, finished.stderr, finished.exit_code) if ctx.read_only else ""
        if missing:
            raise ReadOnlyRefusedError(missing, _printed(result))
        return result

    async def _stream_output(
        self, running: StartedCommand, call_id: str, to_background: Event
    ) -> AsyncGenerator[ToolStreamLine, None]:
        """Yield the output until the line ends, or until the user wishes to have it in the background."""
        while not to_background.is_set() and (pieces := await running.next_output()) is not None:
            for piece in filter(lambda piece: piece.text, pieces):
                yield ToolStreamLine(
                    tool_name=self.get_name(),
                    message=piece.text,
                    tool_call_id=call_id,
                    stream=piece.stream,
                    dropped_bytes=piece.dropped_bytes,
                )

    def _seconds(self, args: BashArgs) -> int:
        """Return the timeout of a line in the foreground, in seconds.

        More than is allowed, in round thousands, is what models that know other agents say for milliseconds.
        """
        wanted, most = args.timeout or self.config.default_timeout, self.config.max_timeout
        return min(wanted // 1000 if wanted > most and wanted % 1000 == 0 else wanted, most)

    async def _started(self, args: BashArgs, ctx: InvokeContext) -> _RunningLine:
        """Start the line.

        Raises:
            CommandStartError: the workspace is gone.
            ToolError: the folder of a stateful shell is gone.
            ReadOnlyRefusedError: it can't be restricted to reading.
        """
        kept, workspace = self._kept(None), ctx.workspace
        problem = await to_thread.run_sync(folder_problem, kept.folder, workspace) if kept.folder else ""
        if problem:
            self.state.shell = structs.replace(kept, folder="")
            raise ToolError(f"{problem}: nothing was run, the next call starts in the workspace root")
        limit = OutputLimit(
            shown=self.config.max_output_bytes,
            keep_in=ctx.output_dir,
            name=f"bash-{ctx.tool_call_id}",
            masked=Mask(ctx.environ).printed,
        )
        outputs = () if ctx.output_dir is None else (ctx.output_dir,)
        place = Place(
            roots=(workspace.root, *workspace.extra_roots),
            readable=(*workspace.read_roots, *outputs),
            network=ctx.network,
            read_only=ctx.read_only,
            secrets=await to_thread.run_sync(unread_files, workspace) if workspace.bounds.unread else (),
            bounds=LOOKING if ctx.only_reads else ResourceLimits(),
        )
        base = _passed(ctx, ctx.environ)
        # Outside the sandbox, variables that a confined line may have set are ignored.
        wanted = base if args.unconfined else kept.given(base)
        if ctx.read_only:
            seen = SEEN_BY_READERS.union(kept.variables)
            wanted = {name: value for name, value in wanted.items() if name in seen}
        reports_state = _is_stateful(self.config) and not args.background and not args.unconfined
        confinement = None if args.unconfined else ctx.confinement
        try:
            shell = await shell_command(args.command, wanted, confinement, place, stateful=reports_state)
        except ReadOnlyUnavailableError as error:
            raise ReadOnlyRefusedError(f"it can't run: {error}") from error
        around = Surroundings(base=base, wanted=wanted, had=shell.command.environ, passing=partial(_passed, ctx))
        order = CommandOrder(
            line=args.command,
            argv=shell.command.argv,
            cwd=workspace.root / kept.folder,
            environ=shell.command.environ,
            timeout=args.timeout if args.background else self._seconds(args),
            limit=limit,
            reports=reports_state,
        )
        try:
            running = await (ctx.commands or PROCESSES).start(order)
        except BaseException:
            await shell.put_aside()
            raise
        return _RunningLine(shell=shell, running=running, around=around, reports_state=reports_state)

    def _keep(self, note: str, report: bytes, line: _RunningLine, workspace: Workspace) -> str:
        """Keep the state that the shell reported. Return the note, with what the model must know about that state."""
        state = self.state
        fresh = "" if state.begun else FRESH_NOTE
        state.shell, notes = next_state(state.shell, report, line.around, workspace)
        text = "; ".join(filter(None, (fresh, state.lost, *notes)))
        state.begun, state.lost = True, ""
        return "\n".join(filter(None, (note, f"[{text}]" if text else "")))

    async def _in_background(self, args: BashArgs, ctx: InvokeContext) -> BashResult:
        """Start the line and hand it to the agent's background commands. It has a timeout only if one is given."""
        if ctx.background is None:
            raise ToolError("no command can run in the background here: run it without `background`")
        ctx.background.check_room()
        return self._move_to_background(args, ctx, await self._started(args, ctx))

    @staticmethod
    def _move_to_background(args: BashArgs, ctx: InvokeContext, line: _RunningLine, printed: str = "") -> BashResult:
        """Hand a running line to the background commands. ``printed`` is what it has printed so far."""
        aside, call_id = line.shell.put_aside, ctx.tool_call_id
        jobs = ctx.background
        handle = "" if jobs is None else jobs.adopt(line.running, args.command, aside, tool_call_id=call_id)
        by = "" if args.background else "the user had it run on: "
        note = f"[{by}runs in the background as {handle}; read or stop it with the tool `background`]"
        return BashResult(command=args.command, stdout=printed, stderr="", returncode=0, note=note, handle=handle)

    def assess(self, args: BashArgs, workspace: Workspace) -> Assessment:
        """Judge every command of the line where it would run now, and every path by where it leads.

        A lasting approval covers each command, or nothing if only running them tells what they do. Acting as another
        user and leaving the sandbox require a person's approval each time.
        """
        kept = self._kept(workspace)
        unread = named_unread(args.command, workspace, kept.place)
        if unread:
            return Assessment(listed=ToolPermission.NEVER, reason=f"{unread!r} is on the deny list of read_file")
        verdict = self._classified(args, workspace, kept)
        if self.config.reads_only:
            if verdict.permission is ToolPermission.ALWAYS and not args.unconfined and not args.background:
                return Assessment(listed=ToolPermission.ALWAYS, only_reads=verdict.only_reads)
            reason = f"this agent's bash only reads: {verdict.reason}"
            return Assessment(listed=ToolPermission.NEVER, reason=reason)
        return Assessment(
            listed=verdict.permission,
            reason=verdict.reason,
            must_ask="the command would run outside the sandbox" if args.unconfined else verdict.each_time,
            covers=_covered(args, kept, workspace),
            read_only=verdict.read_only,
            only_reads=verdict.only_reads,
        )

    def _classified(self, args: BashArgs, workspace: Workspace, kept: ShellState) -> BashVerdict:
        """Return the verdict on the line, taking account of the kept state.

        A shell that only reads may run what the built-in rules know to read. It uses neither what the user has added
        nor a sandbox.
        """
        config, allowed, confined = self.config, self.config.allowlist, self.config.read_only_sandbox
        if config.reads_only:
            allowed = [entry for entry in DEFAULT_ALLOWED if entry in allowed]
        if config.reads_only or args.background or args.unconfined:
            confined = ConfinedReading.OFF
        verdict = classify(
            args.command,
            allowed,
            config.denylist,
            standalone=config.denylist_standalone,
            workspace=workspace,
            confined=confined,
            start=kept.place,
        )
        if verdict.permission is ToolPermission.NEVER or not kept.heeded or args.unconfined:
            return verdict
        reason = f"it runs with variables that an earlier call has set: {', '.join(kept.heeded)}"
        return BashVerdict(permission=None, reason=reason, each_time=verdict.each_time)

    def _kept(self, workspace: Workspace | None) -> ShellState:
        """Return the state that the next line runs with.

        Given a ``workspace``, a folder that is gone is replaced by its root.
        """
        kept = self.state.shell if _is_stateful(self.config) else ShellState()
        if workspace is not None and kept.folder and (problem := folder_problem(kept.folder, workspace)):
            kept = self.state.shell = structs.replace(kept, folder="")
            self.state.lost = f"{problem}: this call ran in the workspace root"
        return kept

    def summarize(self, args: BashArgs) -> str:
        """Return the line, on one line."""
        line = " ".join(args.command.split())
        kept = self._kept(None).described(variables=not args.unconfined)
        shown = shortened(line, SUMMARY_LENGTH)
        return f"bash ({kept}) {shown}" if kept else f"bash {shown}"

    def outlook(self, args: BashArgs, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:
        """Return the line, where it would run, and whether it would be confined."""
        cwd = str(workspace.root / self._kept(None).folder)
        confined = sandboxed and not args.unconfined
        return CallOutlook(display=CommandDisplay(command=args.command), cwd=cwd, confined=confined)

    def display(self, result: BashResult) -> CommandDisplay:
        """Return the line and how it ended, or its handle if it still runs."""
        return CommandDisplay(
            command=result.command,
            exit_code=None if result.handle else result.returncode,
            duration_s=result.duration_s,
            output_files=tuple(result.output_files),
            handle=result.handle,
        )

    def format_result(self, result: BashResult) -> str:
        """Return the output, then the exit code unless it is 0."""
        parts = [_printed(result)]
        if result.returncode:
            parts.append(f"[exit code {result.returncode}]")
        parts.append(result.note)
        return "\n".join(part for part in parts if part) or "[no output]"


def _covered(args: BashArgs, kept: ShellState, workspace: Workspace) -> tuple[str, ...]:
    covered, key = covered_commands(args.command, workspace.root / kept.folder) or (), kept.key()
    return tuple(f"{one} [{key}]" for one in covered or (args.model_dump_json(),)) if key else covered


def _passed(ctx: InvokeContext, environ: Mapping[str, str]) -> dict[str, str]:
    """Return those of the variables that a line gets."""
    passed = child_environ(environ)
    return passed if ctx.confinement is None else dict(ctx.confinement.without_keys(passed))


def _printed(result: BashResult) -> str:
    parts = [result.stdout.rstrip("\n")]
    if result.stderr.strip():
        parts.append(f"[stderr]\n{result.stderr.rstrip()}")
    if result.output_files:
        parts.append(f"[the whole output is in {' and '.join(result.output_files)}]")
    return "\n".join(part for part in parts if part)


def _has_bash() -> bool:
    return find_shell().endswith("bash")


def _is_stateful(config: BashConfig) -> bool:
    """Return whether folder and variables are kept, which requires bash."""
    return config.stateful and _has_bash()
