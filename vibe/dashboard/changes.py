"""Computes the net diff of a step, from the files it found to those it left, and words the comments on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from ipc.events import WorktreeEvent
from subagents.worktree.repository import Repository, open_repository
from vibe.app.engine.host import Host
from vibe.app.plan.review import ChangedFile, PlanReview
from vibe.app.plan.worktrees import git_folder
from vibe.app.watch.rows import fields
from vibe.core.tools.edits import file_diff
from vibe.system.files import regular_bytes
from vibe.system.git.calls import GitCall, run_git
from vibe.system.plain_text import whole_characters

MOST_BYTES = 2 * 1024 * 1024
"""Maximum size of all lines of a diff, in bytes. The rest is cut."""
GIT_SECONDS = 5.0
"""Maximum time for one call of git, in seconds."""
MOST_NEW, MOST_NEW_BYTES = 200, 256 * 1024
"""Maximum number of untracked files shown, and maximum size of each in bytes."""
DIFF: Final = (
    *("-c", "core.bigFileThreshold=2m", "-c", "core.quotePath=true", "diff", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "-M", "--src-prefix=a/", "--dst-prefix=b/"),
)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STATUS: Final = {"new file mode": "added", "deleted file mode": "deleted", "rename from": "renamed"}


def net_changes(host: Host, plan_id: str, step_id: str, tree: WorktreeEvent | None) -> dict[str, Any]:
    """Return the net diff of a step, taken from its worktree if it has one that isn't merged. Blocks.

    Raises:
        VibeError: the files, the plan or git's output can't be read.
        OSError, subprocess.TimeoutExpired: Git can't be started, or takes too long.
    """
    if tree is not None and tree.base and tree.status != "merged" and Path(tree.folder).is_dir():
        files = _worktree_files(host, tree)
    else:
        changes = PlanReview(host, plan_id).changes
        files = [_reviewed_file(change) for change in changes if step_id in (change.step_id, *change.busy)]
    return {"base": "" if tree is None else tree.base, "files": bounded(files)}


def _reviewed_file(change: ChangedFile) -> dict[str, Any]:
    status = "added" if change.before is None else "deleted" if change.after is None else "modified"
    binary = None in change.texts and not any(
        text is not None and state is not None
        for text, state in zip(change.texts, (change.before, change.after), strict=True)
    )
    file = _file(change.name, status, [] if binary else hunks_of(change.diff.text.split("\n")))
    counts = {"added": change.diff.added, "removed": change.diff.removed}
    return file | counts | fields(change, "attempt", "busy") | {"binary": binary, "standing": change.standing.value}


def _worktree_files(host: Host, tree: WorktreeEvent) -> list[dict[str, Any]]:
    """Return the changes in a step's worktree since it began, up to its commit if it has ended."""
    folder = Path(tree.folder)
    repository = open_repository(folder, host.environ, git_folder(host.home), own=host.own_places)
    ends = (tree.base, tree.commit) if tree.commit else (tree.base,)
    found = list(parse_diff(_git(repository, *DIFF, *ends, "--").decode("utf-8", "replace")))
    if tree.commit:
        return found
    new = _git(repository, "ls-files", "-z", "--others", "--exclude-standard").decode("utf-8", "replace").split("\0")
    return found + [_new_file(folder, name) for name in new[:MOST_NEW] if name and not name.endswith("/")]


def _git(repository: Repository, *words: str) -> bytes:
    git = repository.git
    return run_git(GitCall(words=words, folder=git.folder, environ=git.environ, seconds=GIT_SECONDS)).out


def _new_file(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    data, text = b"", "\0"
    with suppress(OSError, UnicodeDecodeError):
        if not path.is_symlink():
            data = regular_bytes(path, MOST_NEW_BYTES + 1)
        text = (data if len(data) <= MOST_NEW_BYTES else whole_characters(data[:-1])).decode()
    hunks = [] if "\0" in text else hunks_of(file_diff(name, None, text, whole=True).text.split("\n"))
    return _file(name, "added", hunks) | {"binary": "\0" in text, "cut": len(data) > MOST_NEW_BYTES}


def parse_diff(diff: str) -> Iterator[dict[str, Any]]:
    """Yield the files in the output of ``git diff``."""
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        start = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
        head = lines[1:start]
        status = next((word for line in head for mark, word in _STATUS.items() if line.startswith(mark)), "modified")
        old, new = _names(lines[0], head)
        found = _file(new, status, hunks_of(lines[start:]))
        binary = any(line.startswith(("Binary files ", "GIT binary patch")) for line in head)
        yield {**found, "old": old if status == "renamed" else "", "binary": binary}


def _names(first: str, head: Sequence[str]) -> tuple[str, str]:
    """Return the path before and after, as the lines above the diff give them."""
    marks = ("rename from ", "rename to ")
    named = {mark: _unquoted(line[len(mark) :]) for mark in marks for line in head if line.startswith(mark)}
    if len(named) == 2:
        return named["rename from "], named["rename to "]
    name = _unquoted(first[: len(first) // 2])[2:]  # a/NAME b/NAME
    return name, name


def _unquoted(name: str) -> str:
    """Return a name as it is. Git quotes unusual ones as C does, which is how Python quotes bytes."""
    return ast.literal_eval(f"b{name}").decode("utf-8", "replace") if name.startswith('"') else name


def hunks_of(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return the hunks in the lines of one file's diff."""
    hunks: list[dict[str, Any]] = []
    left = [0, 0]
    for line in lines:
        begins = _HUNK.match(line) if left == [0, 0] else None
        if begins is not None:
            old, old_count, new, new_count = (1 if number is None else int(number) for number in begins.groups())
            left = [old_count, new_count]
            hunks.append({"old": [old, old_count], "new": [new, new_count], "lines": []})
        elif hunks and (left != [0, 0] or line.startswith("\\")):
            sign = line[:1] or " "
            hunks[-1]["lines"].append([sign, line[1:]])
            left = [left[0] - (sign in " -"), left[1] - (sign in " +")]
    return hunks


def _file(path: str, status: str, hunks: list[dict[str, Any]]) -> dict[str, Any]:
    signs = [line[0] for hunk in hunks for line in hunk["lines"]]
    counts = {"added": signs.count("+"), "removed": signs.count("-")}
    return {"path": path, "old": "", "status": status, **counts, "binary": False, "cut": False, "hunks": hunks}


def bounded(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove the hunks beyond ``MOST_BYTES`` from the files, and mark those files as cut."""
    room = MOST_BYTES
    for file in files:
        kept: list[dict[str, Any]] = []
        for hunk in file["hunks"]:
            room -= sum(len(text.encode("utf-8", "replace")) + 1 for _, text in hunk["lines"])
            if room >= 0:
                kept.append(hunk)
        file["cut"] |= len(kept) < len(file["hunks"])
        file["hunks"] = kept
    return files


class Comment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comment on the lines from ``line`` to ``to`` of a step's changes, numbered as on that ``side``."""

    path: Annotated[str, Meta(min_length=1, max_length=4_096)]
    line: Annotated[int, Meta(ge=1)]
    text: Annotated[str, Meta(min_length=1)]
    to: int = 0
    side: Literal["old", "new"] = "new"
    quote: str = ""


class Comments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Comments that are sent together. With ``retry``, a step that has ended begins again with them."""

    comments: Annotated[tuple[Comment, ...], Meta(min_length=1, max_length=200)]
    retry: bool = False
    command_id: Annotated[str, Meta(max_length=100)] = ""


def comments_text(comments: tuple[Comment, ...]) -> str:
    """Return comments as text for an agent: for each the place, the lines it is about, and its words."""
    parts = [f"Review comments ({len(comments)}):"]
    for comment in comments:
        lines = f"{comment.line}-{comment.to}" if comment.to > comment.line else f"{comment.line}"
        side = " (as it was before)" if comment.side == "old" else ""
        quoted = "".join(f"> {line}\n" for line in comment.quote.splitlines())
        parts.append(f"{comment.path}:{lines}{side}\n{quoted}{comment.text.strip()}")
    return "\n\n".join(parts)
