"""Plans how a step's commit is merged into the user's branch, index and files, without changing any of them.

There are two merges, both from the step's base: one with the files as they are now, which the user will see, and one
with the last commit, which will be committed. They are the same while the working tree is clean.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from subagents.worktree.errors import GitFailedError, MergeRefusedError, name_some
from subagents.worktree.repository import ABSENT, DETACHED_HEAD, GITLINK, Base, Change, Repository, RepositoryState


class MergePlan(Struct, frozen=True, kw_only=True):
    """The changes that a merge will make.

    ``files`` go to the working tree and ``index`` to the index. ``commit`` is the new head of the branch, which is at
    ``head`` now (None if there is nothing to commit). ``left_out`` are paths whose change stays uncommitted.
    """

    head: str
    commit: str | None
    files: tuple[Change, ...] = ()
    index: tuple[Change, ...] = ()
    left_out: tuple[str, ...] = ()


class MergeConflict(Struct, frozen=True, kw_only=True):
    """The step's work conflicts in ``paths`` with the commit ``onto``, which holds the user's files as they are now.

    ``head`` is the user's last commit and ``ref`` the branch it is on.
    """

    onto: str
    head: str
    ref: str
    paths: tuple[str, ...]

    @property
    def base(self) -> Base:
        """The base of the step's work once the conflict is resolved."""
        return Base(commit=self.onto, head=self.head, ref=self.ref)


class Work(Struct, frozen=True, kw_only=True):
    """A step's commit, its changes, and the messages to commit it and to merge it with."""

    commit: str
    changes: tuple[Change, ...]
    message: str
    merge_message: str


def plan_merge(repository: Repository, base: Base, step: Work) -> MergePlan | MergeConflict | None:
    """Return how to merge a step's work, made on ``base``, or None if it changes nothing. Both locks must be held.

    Raises:
        MergeRefusedError: the repository is on another branch, something is in progress there, or the step changed a
            submodule.
    """
    state = _checked_state(repository, base)
    if not step.changes:
        return None
    nested = [change.path for change in step.changes if GITLINK in (change.old_mode, change.new_mode)]
    if nested:
        raise MergeRefusedError(f"{name_some(nested)} is a nested repository, whose changes can't be merged")
    is_real = base.commit == base.head and repository.is_ancestor(base.head, state.head)
    if is_real and (plan := _plan_clean(repository, state, base, step)) is not None:
        return plan
    return _plan_dirty(repository, state, base, step, is_real=is_real)


def _checked_state(repository: Repository, base: Base) -> RepositoryState:
    busy = repository.busy_with()
    if busy:
        raise MergeRefusedError(f"{busy} is in progress in the repository: finish or abort it, then merge the branch")
    state = repository.state()
    if state.unmerged:
        raise MergeRefusedError("the repository has unresolved conflicts: resolve them, then merge the branch")
    if state.ref != base.ref:
        was, now = base.ref or DETACHED_HEAD, state.ref or DETACHED_HEAD
        problem = f"the repository is at {now}, but was at {was} when the step began"
        raise MergeRefusedError(f"{problem}: switch back, then merge the branch or retry the step")
    return state


def _plan_clean(
    repository: Repository, state: RepositoryState, base: Base, step: Work
) -> MergePlan | MergeConflict | None:
    """Plan the merge with the last commit, or return None if it would write where the user has uncommitted changes."""
    head, work, changes = state.head, step.commit, step.changes
    if _touches_uncommitted(changes, state.dirty):
        return None
    tree = f"{work}^{{tree}}"
    if head != base.commit:
        tree, clashes = merge_trees(repository, head, work)
        if clashes:
            return None if state.dirty else MergeConflict(onto=head, head=head, ref=state.ref, paths=clashes)
        changes = repository.changes(head, tree)
        if _touches_uncommitted(changes, state.dirty):
            return None
    commit = repository.commit(tree, [head, work], step.merge_message) if changes else None
    return MergePlan(head=head, commit=commit, files=changes, index=changes)


def _plan_dirty(
    repository: Repository, state: RepositoryState, base: Base, step: Work, *, is_real: bool
) -> MergePlan | MergeConflict:
    """Plan both merges, for when files differ from the last commit or the step did not start from a user's commit."""
    head = state.head
    now, _ = repository.snapshot()
    onto = repository.commit(now, [base.commit], "What the working tree held when a step of a plan was merged\n")
    seen, clashes = merge_trees(repository, onto, step.commit)
    if clashes:
        return MergeConflict(onto=onto, head=head, ref=state.ref, paths=clashes)
    files = repository.changes(now, seen)
    ours = head if is_real else repository.commit(f"{head}^{{tree}}", [base.commit], "The last commit\n")
    tree = _committable(repository, state, *merge_trees(repository, ours, step.commit))
    index = repository.changes(head, tree)
    committed = {change.path for change in index}
    commit = None
    if index:
        own = repository.commit(tree, [head], step.message)
        commit = repository.commit(tree, [head, own], step.merge_message)
    left_out = tuple(change.path for change in files if change.path not in committed)
    return MergePlan(head=head, commit=commit, files=files, index=index, left_out=left_out)


def _committable(repository: Repository, state: RepositoryState, merged: str, clashes: tuple[str, ...]) -> str:
    """Return the merged tree without the paths that clash with the last commit or that the user staged."""
    changed = repository.changes(state.head, merged)
    undo = [change for change in changed if change.path in state.staged or change.path in clashes]
    if any(change.old_mode == ABSENT and change.path in clashes for change in undo):
        undo = list(changed)  # the file may have been renamed, too, so commit either all changes or none
    if not undo:
        return merged
    index = repository.scratch / "commit"
    repository.git("read-tree", merged, index=index)
    repository.update_index(index, [Change(one.path, one.new_mode, one.new, one.old_mode, one.old) for one in undo])
    return repository.git("write-tree", index=index).text


def merge_trees(repository: Repository, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """Merge two commits as git would, from their common ancestor. Return the tree and the clashing paths.

    Raises:
        GitFailedError: Git refuses.
    """
    words = ("merge-tree", "--write-tree", "-z", "--no-messages", "--name-only", ours, theirs)
    answer = repository.git.ask(*words)
    if answer.code not in (0, 1):
        raise GitFailedError(words, repository.top, answer.problem)
    tree, *clashes = answer.items
    return tree, tuple(clashes)


def _touches_uncommitted(changes: Sequence[Change], dirty: Sequence[str]) -> bool:
    """Return whether a change touches an uncommitted path, or one above or below it."""
    paths = {change.path for change in changes}
    folders = {parent for path in paths for parent in _parents(path)}
    uncommitted = (path.rstrip("/") for path in dirty)
    return any(path in paths or path in folders or not paths.isdisjoint(_parents(path)) for path in uncommitted)


def _parents(path: str) -> list[str]:
    names = path.split("/")[:-1]
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]
