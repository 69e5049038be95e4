"""PlanReview: the changes of a plan by step, attempt and file, with both texts, to comment on or to give back."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct, structs

from ipc.events import ReviewComment
from planner.plan.diagnostics import listed
from planner.plan.model import Step
from planner.store.current_plan import current_state
from planner.store.folder import PlanFolder, find_plan
from subagents.worktree.lifecycle import Phase, commit_mark
from subagents.worktree.repository import Git, Repository, open_repository
from vibe.app.engine.host import Host
from vibe.app.plan.rewind import FILES_FOLDER, Changes
from vibe.app.plan.worktrees import git_folder, place_of
from vibe.core.config.paths import in_utf8
from vibe.core.messages import Outcome
from vibe.core.session.snapshots import PathState, Point, Snapshots
from vibe.core.tools.edits import FileDiff, file_diff
from vibe.system.errors import UsageError

REMOVED_FIELDS = ("id", "title", "mode", "workspace")
"""The fields that are needed of a step that a revision removed."""
NOT_TEXT = "it is not text, or was too large to be recorded"


class FileState(StrEnum):
    """The present state of a file that a step changed."""

    OPEN = "open"
    """As the step left it."""
    REJECTED = "rejected"
    """As it was before the step."""
    CHANGED = "changed since"


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that a step changed, last in ``attempt``.

    ``before`` or ``after`` is None if the file did not exist then.

    ``texts`` holds both as text, None also if it is not text. ``path`` is relative to the workspace. ``busy`` names the
    steps that were at work, if it is not known which of them changed the file. ``in_git`` is the path in the repository
    if the contents are as git keeps them.
    """

    step_id: str
    attempt: int
    path: str
    before: PathState | None
    after: PathState | None
    texts: tuple[str | None, str | None] = (None, None)
    diff: FileDiff = FileDiff()
    standing: FileState = FileState.OPEN
    busy: tuple[str, ...] = ()
    in_git: str = ""

    @property
    def name(self) -> str:
        """The path in a printable form."""
        return in_utf8(self.path)


class PlanReview:
    """Everything that the steps of a plan changed, in the plan's order. All methods block: call them in a thread.

    Raises:
        UsageError: there is no such plan, or its workspace or repository is gone.
        EnvironmentFailure: git or the disk refuses.
    """

    def __init__(self, host: Host, reference: str) -> None:
        folder = self.folder = find_plan(host.home, reference)
        self.plan_id = folder.plan_id
        loaded, self._state = current_state(folder)
        self.goal = loaded.plan.goal
        self.workspace = folder.settings().existing_workspace()
        gone = (removed.step.outline for removed in self._state.removed_for_good())
        removed = (Step.model_validate({name: getattr(one, name) for name in REMOVED_FIELDS}) for one in gone)
        self._steps = {step.id: step for step in (*loaded.plan.steps, *removed)}
        self._changes_by_step = Changes(loaded, self._state.results())
        self.snapshots = Snapshots(self.workspace, folder.path / FILES_FOLDER, host.environ, host.own_places)
        self.snapshots.store.prepare()
        self._git = Git(folder=self.workspace, environ=host.environ)
        found = [*self._recorded(self.snapshots.points(whole=True)), *self._committed(host, folder)]
        order = list(self._steps)
        self.changes = tuple(self._read(sorted(_merged(found), key=lambda one: order.index(one.step_id))))

    def of(self, path: str, step_id: str = "") -> ChangedFile:
        """Return the change of a file by a step, by default by the last one that changed it.

        Raises:
            UsageError: there is none.
        """
        same = [one for one in self.changes if one.name == path and step_id in ("", one.step_id)]
        if not same:
            did = f"step {step_id!r} did not change" if step_id else "no step changed"
            what = repr(path) if path else "a file"
            known = listed(dict.fromkeys(one.name for one in self.changes)) if self.changes else "none"
            raise UsageError(f"plan {self.plan_id}: {did} {what}; changed: {known}")
        return min(reversed(same), key=lambda one: list(FileState).index(one.standing))

    def comment(self, change: ChangedFile, lines: tuple[int, int], text: str) -> ReviewComment:
        """Return a comment on lines of what a step made of a file; for a deleted file, of what it was.

        Raises:
            UsageError: it has no such lines.
        """
        comment = comment_on(change, lines, text)
        now = (self._current_bytes(change) or b"").decode(errors="replace").replace("\r\n", "\n")
        return structs.replace(comment, stale=comment.code not in now and self.standing(change) is not FileState.OPEN)

    def _recorded(self, points: Sequence[Point]) -> Iterator[ChangedFile]:
        """Yield what steps in the shared workspace changed, earliest first."""
        found: list[ChangedFile] = []
        files: dict[str, PathState] = {}
        for point in points:
            busy = [self._steps[name] for name in point.busy if name in self._steps]
            if point.rewound:
                busy, found = [], [one for one in found if one.step_id not in point.rewound]
            for path, after in point.changed.items():
                before = files.pop(path, None)
                if after is not None:
                    files[path] = after
                states = [None if state and state.is_folder else state for state in (before, after)]
                step = self._changes_by_step.step_of(path, busy)
                if step is not None and step.workspace == "shared":
                    attempt = self._attempt_at(step, point.at)
                    unsure = self._changes_by_step.unsure(path, [one for one in busy if one.workspace == "shared"])
                    change = ChangedFile(step_id=step.id, attempt=attempt, path=path, before=states[0], after=states[1])
                    found.append(structs.replace(change, busy=unsure))
        return iter(found)

    def _attempt_at(self, step: Step, at: float) -> int:
        attempts = self._state.steps[step.id].attempts if step.id in self._state.steps else ()
        return next((one.number for one in attempts if one.ended_at >= at), len(attempts) or 1)

    def _committed(self, host: Host, folder: PlanFolder) -> Iterator[ChangedFile]:
        """Yield what steps in worktrees changed, as far as it was merged, earliest first."""
        apart = {step.id for step in self._steps.values() if step.workspace == "worktree"}
        own = [step_id for step_id in self._changes_by_step.results if step_id in apart]
        if not own:
            return
        repository = open_repository(self.workspace, host.environ, git_folder(host.home), own=host.own_places)
        self._git = repository.git
        place = place_of(folder)
        words = ("log", "-z", "--reverse", "--format=%H%n%P%n%B", "--fixed-strings", f"--grep=of plan {self.plan_id}.")
        log = [item.split("\n", 2) for item in repository.git(*words).items]
        for step_id in own:
            attempts = self._state.steps[step_id].attempts
            done = [one.number for one in attempts if one.result.outcome is Outcome.COMPLETED]
            merged = [(parent, work) for work, parent, said in log if commit_mark(step_id, self.plan_id) in said]
            record = place.record(step_id)
            if record is not None and record.phase is Phase.MERGED and record.work and len(merged) < len(done):
                merged.append((record.base.commit, record.work))  # merged into files, but could not be committed
            for attempt, pair in reversed(list(zip(reversed(done), reversed(merged), strict=False))):
                yield from _changed_between(repository, pair, step_id, attempt)

    def _read(self, found: Iterable[ChangedFile]) -> Iterator[ChangedFile]:
        """Yield the changes with their texts."""
        changes = list(found)
        sizes = {state.blob: state.size for one in changes for state in (one.before, one.after) if state and state.blob}
        texts = {name: _text(data) for name, data in self.snapshots.store.get(sizes)} if sizes else {}
        for one in changes:
            before, after = (texts.get(state.blob) if state else None for state in (one.before, one.after))
            diff = FileDiff(NOT_TEXT)
            if (before is not None or one.before is None) and (after is not None or one.after is None):
                diff = file_diff(one.name, before, after, whole=True)
            whole = structs.replace(one, texts=(before, after), diff=diff)
            yield structs.replace(whole, standing=self.standing(whole))

    def standing(self, change: ChangedFile) -> FileState:
        """Return the present state of a changed file."""
        blob = self._current_blob(change)
        if blob == (change.after.blob if change.after else ""):
            return FileState.OPEN
        return FileState.REJECTED if blob == (change.before.blob if change.before else "") else FileState.CHANGED

    def as_file(self, change: ChangedFile, state: PathState | None) -> PathState | None:
        """Return the state of a changed file as it is in the workspace, with the line ends that git gives it there."""
        if state is None or not change.in_git or not stat.S_ISREG(state.mode):
            return state
        data = self._git("cat-file", "--filters", f"--path={change.in_git}", state.blob).out
        name = self.snapshots.store.name_of(data)
        self.snapshots.store.put(name, data)
        return structs.replace(state, blob=name, size=len(data))

    def _current_blob(self, change: ChangedFile) -> str:
        data, known = self._current_bytes(change), {one.blob for one in (change.before, change.after) if one}
        name = "" if data is None else self.snapshots.store.name_of(data)
        if not name or not change.in_git or name in known:
            return name
        return self._git.ask("hash-object", "--", change.in_git).text or name

    def _current_bytes(self, change: ChangedFile) -> bytes | None:
        """Return what the file contains now; None if it does not exist or can't be read."""
        path = self.workspace / change.path
        with suppress(OSError):
            return bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        return None

    def since(self, change: ChangedFile) -> str:
        """Return a sentence on who changed a file after a step did, as far as it is known."""
        blob, same = self._current_blob(change), (one for one in self.changes if one.path == change.path and one.after)
        steps = [one.step_id for one in same if one.after and one.after.blob == blob]
        who = f"step {steps[-1]!r}" if steps else "someone else"
        return f"{change.name} was changed by {who} since step {change.step_id!r} changed it"


def comment_on(change: ChangedFile, lines: tuple[int, int], text: str) -> ReviewComment:
    """Return a comment on some lines, first to last, of what a file became, or of what a deleted one was.

    Raises:
        UsageError: it has no such lines.
    """
    first, last = lines
    own = next((text for text in reversed(change.texts) if text is not None), "").splitlines()
    if not 1 <= first <= last <= len(own) + 1:  # the empty line after the last line break counts
        raise UsageError(f"{change.name} has no line {first if first < 1 or last < first else last}")
    return ReviewComment(file=change.name, first=first, last=last, text=text, code="\n".join(own[first - 1 : last]))


def _changed_between(git: Repository, pair: tuple[str, str], step_id: str, attempt: int) -> Iterator[ChangedFile]:
    for one in git.changes(*pair):
        path = git.from_workspace(one.path)
        sides = ((one.old_mode, one.old), (one.new_mode, one.new))
        before, after = (PathState(int(mode, 8), blob) if int(mode, 8) else None for mode, blob in sides)
        if not path.startswith("../"):
            yield ChangedFile(step_id=step_id, attempt=attempt, path=path, before=before, after=after, in_git=one.path)


def _merged(found: Iterable[ChangedFile]) -> Iterator[ChangedFile]:
    """Yield the changes, with those of one step to one file merged if no other step's came between."""
    latest: dict[tuple[str, str], ChangedFile] = {}
    apart: list[ChangedFile] = []
    for one in found:
        key = one.step_id, one.path
        earlier = latest.get(key)
        if earlier is not None and _is_same(earlier.after, one.before):
            busy = tuple(dict.fromkeys((*earlier.busy, *one.busy)))
            latest[key] = structs.replace(one, before=earlier.before, busy=busy)
            continue
        if earlier is not None:
            apart.append(latest.pop(key))
        latest[key] = one
    return (one for one in (*apart, *latest.values()) if not _is_same(one.before, one.after))


def _is_same(one: PathState | None, other: PathState | None) -> bool:
    return one is other if one is None else one.is_like(other)


def _text(data: bytes) -> str | None:
    """Return a file's text; None if it is not text."""
    with suppress(UnicodeDecodeError):
        return None if b"\0" in data else data.decode()
    return None
