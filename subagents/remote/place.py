"""The worker's side: runs attempts in its own checkouts, each over a link to its run, with which it ends."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from subagents.process.child_process import ProcessPool, StepProcess, StepProgram
from subagents.process.protocol import AGENTS, Hello, LinkError, MismatchError, encode
from subagents.process.transport import Carrier, SocketTransport
from subagents.remote import frames as f
from subagents.remote.keeper import Keeper
from subagents.remote.trees import has_tree, known_commits, note_commit, open_project, unpack
from subagents.step_result import ENVIRONMENT_REASON
from subagents.worktree.repository import Base, Repository
from subagents.worktree.worktree import Worktree, remove_folder
from vibe.shell.process.runner import run_command
from vibe.system.errors import EnvironmentFailure, shortage
from vibe.system.process import kill_group
from vibe.system.programs import find_program
from vibe.system.racing import unless
from vibe.system.redaction import redact

logger = logging.getLogger(__name__)

HOME_VARIABLE = "VIBE_HOME"
KEPT_SECONDS = 60.0
"""Seconds for which a worker keeps a run's files and processes after the run's last attempt."""
LEAVE_SECONDS = 0.3
"""Seconds that an attempt's process has to exit."""
HOST_SECONDS = 1.0
"""Seconds beyond the grace period that the host of commands has to end one attempt before it is killed."""
SETUP_SECONDS = 3_600.0
"""Seconds that each of the user's setup commands may take."""
MOST_OUTPUT = 2_000
"""Characters of a failed setup command's output that are reported."""
DONE = ".done"
"""Suffix of the file that says that a template is complete, and by its date when it was last used."""
MOST_KEPT = 8
"""Projects, and templates, that a worker keeps: the most recently used."""
MOST_PACKS = 500
"""Packs of a project beyond which it is removed and sent whole again."""
_NAME = re.compile(r"[0-9a-f]{8,64}")
_ROOM = re.compile(rb'\{"type":"asked","lease":\d+,"want":\{"type":"room"')
_ANSWERED = b'{"type":"event","event":{"type":"assistant.message"'
_ENDED = b'{"type":"ended"'


class SetupFailedError(Exception):
    """A command of the run's setup failed on this worker."""


class RunHere(Struct, eq=False):
    """The part of a worker that belongs to one run: its settings, a copy of its workspace, and ready processes."""

    home: Path
    """The vibe home of the run."""
    steps: Path
    """The folder that holds the steps' folders."""
    tree: Path
    """The copy of the working tree of the run's repository."""
    pool: ProcessPool | None = None
    host: StepProcess | None = None
    control: socket.socket | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0
    idle_since: float = 0.0

    async def take(self, fork_server: socket.socket | None, *, is_command: bool) -> Carrier:
        """Return a process for an attempt. All attempts of commands share one, their host; see ``WorkerPlace``.

        Raises:
            ProcessStartError: the system refuses to start one.
            LinkError: the run was forgotten meanwhile.
        """
        if self.pool is None:
            raise LinkError("the run was forgotten meanwhile")
        if not is_command:
            return await self.pool.take()
        async with self.lock:
            if self.host is None or self.host.exit_code is not None:
                await self.end_host()
                self.control, theirs = socket.socketpair()
                with theirs:
                    own = theirs.fileno()
                    self.host = await StepProcess.start(self.pool.program, own, fork_server=fork_server)
        ours, theirs = socket.socketpair()
        link = SocketTransport(ours)
        with theirs, suppress(OSError):  # if the host is gone, the link ends at once
            if self.control is not None:
                socket.send_fds(self.control, [b"+"], [theirs.fileno()])
        await link.send(encode(Hello.own(self.pool.program.capabilities)))
        return _HostedAttempt(link, ours, self.host)

    async def end_host(self) -> None:
        """End the host of commands, if there is one."""
        if self.host is not None:
            await self.host.end()
            self.host = None
        if self.control is not None:  # it may be there without a host, if none could be started
            self.control.close()
            self.control = None


class _HostedAttempt(Struct, eq=False):
    """An attempt of a command, in its run's host of commands; see ``Carrier``."""

    link: SocketTransport
    _socket: socket.socket
    _host: StepProcess
    exit_code: int | None = 0
    printed: str = ""

    async def listen(self) -> None:
        """Do nothing, because the host prints for all of them."""

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """Have the host end the attempt, and kill the host if it does not."""
        with anyio.CancelScope(shield=True):
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            with anyio.move_on_after(grace_seconds + HOST_SECONDS) as late:
                while await self.link.receive() is not None:
                    pass
            if late.cancelled_caught:
                kill_group(self._host.pid)
            self.link.close()


class WorkerPlace:
    """Serves attempts on a worker. Nobody else uses ``folder``. ``fork_server`` has loaded ``STEP_MODULE``."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        capabilities: tuple[str, ...] = (),
        fork_server: socket.socket | None = None,
    ) -> None:
        self.at_work: dict[str, str] = {}
        """The ids of the steps at work here, by attempt."""
        self._projects = folder / "projects"
        self._work = folder / "work"
        self._templates = folder / "templates"
        self._environ = environ
        self._fork_server = fork_server
        self._capabilities = (AGENTS, f.COMMANDS, *capabilities)
        self._runs: dict[str, RunHere] = {}
        self._opened: dict[str, Repository] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._tidying = anyio.Lock()

    def prepare(self) -> None:
        """Remove what an earlier worker left in the folder, and make its subfolders. Blocks."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._remove_old()
        for project in self._projects.glob("*.git"):
            shutil.rmtree(project / "worktrees", ignore_errors=True)
            shutil.rmtree(project / "refs" / "heads" / "vibe", ignore_errors=True)
        self._projects.mkdir(parents=True, exist_ok=True)
        self._work.mkdir(parents=True)

    async def serve(self, link: f.FrameLink, attempt: str) -> None:
        """Serve one attempt until it has ended or the link is lost. Everything it started is gone by then."""
        hello = await link.receive()
        if not isinstance(hello, f.RunHello) or not (_NAME.fullmatch(hello.run) and _NAME.fullmatch(hello.project)):
            return
        folder = self._work / f"run-{hello.run}"
        run = self._runs.setdefault(hello.run, RunHere(folder / "home", folder / "steps", folder / "tree"))
        run.users += 1  # from its hello on, so that it isn't forgotten while it packs its tree
        try:
            await self._serve_run(link, hello, run, self._work / attempt)
        finally:
            run.users -= 1
            run.idle_since = anyio.current_time()

    async def _serve_run(self, link: f.FrameLink, hello: f.RunHello, run: RunHere, checkout: Path) -> None:
        own = Hello.own(self._capabilities)
        reply = f.WorkerHello(
            hello=own,
            checkout=str(checkout),
            steps=str(run.steps),
            workspace=str(run.tree),
            home=str(run.home),
            commits=tuple(await to_thread.run_sync(known_commits, self._folder_of(hello.project))),
            knows_run=run.pool is not None,
            host=socket.gethostname(),
        )
        link.post(reply)
        with suppress(MismatchError):
            own.check(hello.hello)
            order = await link.receive()
            if isinstance(order, f.Order):
                await self._serve_order(link, hello.project, run, order, checkout)

    async def end_run(self, run: str) -> None:
        """Forget a run that has ended, and remove its files and processes."""
        here = self._runs.pop(run, None)
        if here is not None:
            if here.pool is not None:
                await here.pool.close()
            await here.end_host()
            await to_thread.run_sync(partial(shutil.rmtree, here.home.parent, ignore_errors=True))
        async with self._tidying:
            if not self._runs:
                await to_thread.run_sync(self._remove_old)

    def _remove_old(self) -> None:
        """Remove all but the most recently used projects and templates, and packs that broke off. Blocks.

        No attempt may be prepared meanwhile.
        """
        projects = _last_used(self._projects.glob("*.git"))
        large = [one for one in projects if sum(1 for _ in one.glob("objects/pack/*.pack")) > MOST_PACKS]
        marks = _last_used(self._templates.glob(f"*{DONE}"))
        kept = {*marks, *(mark.with_suffix("") for mark in marks), *projects} - {*large}
        for path in (*self._projects.glob("*.git"), *self._templates.glob("*")):
            if path not in kept:
                path.unlink() if path.suffix == DONE else shutil.rmtree(path, ignore_errors=True)
        for rest in self._projects.glob("*.git/objects/pack/tmp_*"):
            rest.unlink()

    async def sweep(self) -> None:
        """Forget runs that have had no attempt here for KEPT_SECONDS."""
        now = anyio.current_time()
        for run_id, run in list(self._runs.items()):
            if run.users == 0 and now - run.idle_since > KEPT_SECONDS:
                await self.end_run(run_id)

    async def close(self) -> None:
        """Forget all runs."""
        for run_id in list(self._runs):
            await self.end_run(run_id)
        await to_thread.run_sync(partial(shutil.rmtree, self._work, ignore_errors=True))

    def _lock(self, project: str) -> anyio.Lock:
        return self._locks.setdefault(project, anyio.Lock())

    def _folder_of(self, project: str) -> Path:
        return self._projects / f"{project}.git"

    async def _serve_order(self, link: f.FrameLink, project: str, run: RunHere, order: f.Order, checkout: Path) -> None:
        self.at_work[checkout.name] = order.step_id
        try:
            async with self._tidying:  # wait until old projects are removed, so as not to find one that is going
                pass
            files = {name: await _receive_parts(link) for name in order.files}
            repository = await self._receive_tree(link, project, order)
            lock = self._lock(project)
            async with lock:
                await self._prepare_run(run, order, repository)
            set_up = await unless(partial(_until_left, link), partial(self._set_up, project, order, repository))
            if not set_up:
                raise LinkError("the run has left")
            shared = replace(repository, workspace=set_up[0], prefix=order.prefix, share=order.settings.share)
            worktree = _worktree(shared, checkout)
            async with _checked_out(worktree, order.commit, lock):
                await to_thread.run_sync(_write_files, run, order.step_id, files)
                await self._attempt(link, run, order, worktree)
        except SetupFailedError as error:
            link.post(f.OrderRefused("setup", str(error)))
        except (EnvironmentFailure, OSError) as error:
            logger.warning("attempt at step %s: %s", order.step_id, error)
            link.post(f.OrderRefused(ENVIRONMENT_REASON, shortage(error) or str(error)))
        finally:
            del self.at_work[checkout.name]

    async def _receive_tree(self, link: f.FrameLink, project: str, order: f.Order) -> Repository:
        """Receive the order's commit, and return the project's repository, which then has it.

        Raises:
            EnvironmentFailure: Git is missing, or git or the disk refuses.
            LinkError: something other than a pack arrived.
        """
        if await to_thread.run_sync(find_program, "git", self._environ) is None:
            raise EnvironmentFailure("it has no git: install it there")
        async with self._lock(project):
            folder = self._folder_of(project)
            if project not in self._opened or not (folder / "HEAD").is_file():
                self._opened[project] = await to_thread.run_sync(open_project, folder, order.commit, self._environ)
            repository = self._opened[project]
        data = b"" if order.has_tree else await _receive_parts(link)
        if not await to_thread.run_sync(_unpack_tree, repository, order, data):
            await link.send(f.PackMissing())
            data = await _receive_parts(link)
            await to_thread.run_sync(partial(unpack, repository.git, data, most=order.settings.largest_tree))
        await to_thread.run_sync(note_commit, repository, order.commit)
        return repository

    async def _prepare_run(self, run: RunHere, order: f.Order, repository: Repository) -> None:
        """Prepare for a run, if that has not been done yet.

        Raises:
            LinkError: the run has not sent what it needs.
        """
        if run.pool is not None:
            return
        if order.run is None:
            raise LinkError("the run was forgotten meanwhile")
        await to_thread.run_sync(_unpack_run, run, order, repository)
        parts, environ = order.run, {**self._environ, HOME_VARIABLE: str(run.home)}
        program = StepProgram(environ=environ, document=parts.document, capabilities=parts.capabilities)
        run.pool = ProcessPool(program, expected=parts.agents)

    async def _set_up(self, project: str, order: f.Order, repository: Repository) -> Path:
        """Return the workspace in the template, the checkout in which the run's setup commands were run.

        If there is no such template yet, it is made and the commands are run there.

        Raises:
            SetupFailedError: a command failed.
            WorktreeError: Git or the disk refuses.
        """
        commands, keys = order.settings.setup, order.settings.setup_keys
        names = [f"{order.commit}:{order.prefix}{key}" for key in keys]
        if not commands:
            return self._work / "none"
        found = await to_thread.run_sync(partial(repository.git.ask, "rev-parse", *names))
        text = "\0".join((project, order.prefix, *commands, *keys, found.text.replace(order.commit, "")))
        folder = self._templates / hashlib.sha256(text.encode()).hexdigest()[:32]
        done = folder.with_suffix(DONE)
        async with self._lock(folder.name):
            if not done.exists():
                await to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
                async with self._lock(project):
                    await to_thread.run_sync(_worktree(repository, folder).create, _base(order.commit))
                await _run_setup(folder / order.prefix, commands, self._environ)
            done.touch()
        return folder / order.prefix

    async def _attempt(self, link: f.FrameLink, run: RunHere, order: f.Order, worktree: Worktree) -> None:
        folder = run.steps / order.step_id
        keeper = await to_thread.run_sync(Keeper, folder, worktree, order.commit, order.settings.checkpoint_seconds)
        process = await run.take(self._fork_server, is_command=not order.has_agent)
        try:
            link.post(f.ProcessReady())
            await _carry(link, process, keeper)
        finally:
            await process.end(grace_seconds=LEAVE_SECONDS)
        link.post(f.ProcessGone(process.exit_code, process.printed))


async def _run_setup(folder: Path, commands: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run the user's commands in a folder, one after the other. A cancellation ends the current one.

    Raises:
        SetupFailedError: a command failed.
        CommandStartError: the system refuses to start a process.
    """
    for command in commands:
        ended = await run_command(command, cwd=folder, environ=environ, timeout=SETUP_SECONDS)
        if not ended.is_success:
            output = redact(f"{ended.stdout}\n{ended.stderr}".strip(), environ)[-MOST_OUTPUT:]
            failed = f"failed with exit code {ended.exit_code}"
            how = f"ran longer than {SETUP_SECONDS:.0f} s" if ended.timed_out else failed
            raise SetupFailedError(f"the command {command!r} of [cluster] setup {how}: {output}")


async def _carry(link: f.FrameLink, process: Carrier, keeper: Keeper) -> None:
    """Pass lines on in both directions until the process has ended or the link is lost.

    Raises:
        WorktreeError, OSError: Git or the disk refuses.
        LinkError: the process sends an invalid line.
    """

    async def until_left() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(process.listen)
            await _forward_lines(link, process)
            group.cancel_scope.cancel()

    await unless(until_left, partial(_send_lines, link, process, keeper))


async def _until_left(link: f.FrameLink) -> None:
    """Return once the run has left. It sends nothing while it waits."""
    with suppress(LinkError):
        await link.receive()


async def _send_lines(link: f.FrameLink, process: Carrier, keeper: Keeper) -> None:
    ended = False
    while (line := await process.link.receive()) is not None:
        ended, answered = line.startswith(_ENDED), line.startswith(_ANSWERED)
        if ended or answered or _ROOM.match(line):  # an answer is paid for, so it must not be lost
            await _send_kept(link, keeper, last=ended, tree=not answered)
        await link.send(f.LineBatch((line,)))
    if not ended:
        await _send_kept(link, keeper, last=True, tree=True)


async def _send_kept(link: f.FrameLink, keeper: Keeper, *, last: bool, tree: bool) -> None:
    for frame in await to_thread.run_sync(partial(keeper.frames, last=last, tree=tree)):
        await link.send(frame)


async def _forward_lines(link: f.FrameLink, process: Carrier) -> None:
    with suppress(LinkError):
        while isinstance(frame := await link.receive(), f.LineBatch):
            for line in frame.lines:
                await process.link.send(line + b"\n")


async def _receive_parts(link: f.FrameLink) -> bytes:
    """Receive the parts of a pack or a file, and return them joined.

    Raises:
        LinkError: something else arrives.
    """
    parts: list[bytes] = []
    while isinstance(frame := await link.receive(), f.PackPart):
        parts.append(frame.data)
        if frame.is_last:
            return b"".join(parts)
    raise LinkError(f"no part of a pack or a file: {type(frame).__name__}")


def _unpack_tree(repository: Repository, order: f.Order, data: bytes) -> bool:
    """Unpack the order's pack, if there is one, and return whether the repository has the order's tree."""
    if not data:
        return has_tree(repository, order.commit)
    try:
        unpack(repository.git, data, most=order.settings.largest_tree)
    except EnvironmentFailure:
        return False
    return True


def _unpack_run(run: RunHere, order: f.Order, repository: Repository) -> None:
    parts = order.run or f.RunParts(document=b"")
    shutil.rmtree(run.home.parent, ignore_errors=True)
    run.steps.mkdir(parents=True)
    _write(run.home, parts.files)
    _worktree(repository, run.tree).create(_base(order.commit))


def _base(commit: str) -> Base:
    return Base(commit=commit, head=commit, ref="")


def _last_used(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.stat().st_mtime_ns)[-MOST_KEPT:]


def _write_files(run: RunHere, step_id: str, files: Mapping[str, bytes]) -> None:
    shutil.rmtree(run.steps / step_id, ignore_errors=True)
    _write(run.steps, files)


@asynccontextmanager
async def _checked_out(worktree: Worktree, commit: str, lock: anyio.Lock) -> AsyncGenerator[None]:
    """Have a worktree with a commit's files while the block runs; ``lock`` guards the list of worktrees.

    Raises:
        WorktreeError: Git or the disk refuses.
    """
    try:
        async with lock:
            await to_thread.run_sync(worktree.create, _base(commit))
        yield
    finally:
        with anyio.CancelScope(shield=True):
            async with lock:
                rest = await to_thread.run_sync(_put_away, worktree)
            await to_thread.run_sync(remove_folder, rest)


def _worktree(repository: Repository, path: Path) -> Worktree:
    return Worktree(repository=repository, path=path, branch=f"vibe/{path.name}-{uuid4().hex[:8]}")


def _put_away(worktree: Worktree) -> Path:
    rest = worktree.put_away()
    (worktree.repository.common_dir / worktree.ref).unlink(missing_ok=True)
    return rest


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
