"""The base of tools that edit text files, and the diffs that show people what an edit changes."""

from __future__ import annotations

import re
from abc import abstractmethod
from difflib import unified_diff
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, TypeVar

from msgspec import Struct
from pydantic import BaseModel, InstanceOf

from ipc.events import ApprovalRequestEvent, DiffDisplay, WrittenFile
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolError
from vibe.core.tools.files.text_files import DecodedText
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.workspace import Workspace

CONTEXT = 3
"""Unchanged lines shown around each change of a diff."""
LINE_NUMBER = re.compile(r"(?<=[-+])\d+")
"""The start lines in a hunk's header: in the old text, then in the new one."""
NO_FILE = "/dev/null"
"""The file name that a diff uses where no file existed."""
NO_LINE_BREAK = "\\ No newline at end of file"
"""The note below a last line that no line break ends, as ``diff`` and git write it."""
MOST_COMPARED = 4_000_000
"""The most pairs of lines to compare. Beyond that a diff takes too long to be worth it."""
MOST_LINES = 400
"""The most lines of a diff that are shown."""
MOST_CHARACTERS = 20_000
"""The most characters of a diff that are shown."""


class FileDiff(Struct, frozen=True):
    """A change to a text: its diff, and how many lines it adds and removes.

    The diff is empty if the change is too large to compare.
    """

    text: str = ""
    added: int = 0
    removed: int = 0


def file_diff(name: str, before: str | None, after: str | None, *, whole: bool = False) -> FileDiff:
    """Return the change from ``before`` to ``after``; None if there is no file.

    The diff is cut to MOST_LINES and MOST_CHARACTERS unless ``whole``.
    """
    source, target = (NO_FILE if text is None else name for text in (before, after))
    old, new = (_lines(text or "") for text in (before, after))
    start = _common_start(old, new)
    end = _common_start(old[start:][::-1], new[start:][::-1])
    removed, added = len(old) - start - end, len(new) - start - end
    if removed * added > MOST_COMPARED:
        return FileDiff("", added, removed)
    left = max(start - CONTEXT, 0)

    def moved(number: re.Match[str]) -> str:
        return str(int(number[0]) + left)

    right = max(end - CONTEXT, 0)
    lines = unified_diff(
        old[left : len(old) - right], new[left : len(new) - right], source, target, n=CONTEXT, lineterm=""
    )
    shown = [LINE_NUMBER.sub(moved, line, 2) if line.startswith("@@") else line for line in lines]
    signs = [line[:1] for line in shown[2:]]  # The first two lines are the file names.
    return FileDiff("\n".join(shown) if whole else _cut(shown), signs.count("+"), signs.count("-"))


def asked_diff(request: ApprovalRequestEvent, *, whole: bool = False) -> str:
    """Return what a call that needs approval would change in files; for a new file its text, as ``file_diff`` cuts it.

    The event has no diff of a new file, since its arguments say it all.
    """
    display, text = request.preview, request.arguments.get("content")
    if request.diff or not isinstance(display, DiffDisplay) or not isinstance(text, str):
        return request.diff
    return file_diff(display.files[0].path, None, text, whole=whole).text


def _lines(text: str) -> list[str]:
    """Return the lines as a person counts them; a last line that no line break ends has a note below it."""
    *lines, rest = text.replace("\r\n", "\n").split("\n")
    return [*lines, f"{rest}\n{NO_LINE_BREAK}"] if rest else lines


def _common_start(one: list[str], other: list[str]) -> int:
    """Return how many lines the two have in common at the start."""
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)


def _cut(lines: list[str]) -> str:
    sizes = accumulate(len(line) + 1 for line in lines[:MOST_LINES])
    kept = sum(size <= MOST_CHARACTERS for size in sizes)
    left = len(lines) - kept
    return "\n".join([*lines[:kept], *([f"… {left} more lines"] if left else [])])


Args = TypeVar("Args", bound=BaseModel)
Edited = TypeVar("Edited", bound="EditResult")
Config = TypeVar("Config", bound=BaseToolConfig)


class EditResult(BaseModel):
    """The result of an edit: the ``change`` to a file, which also counts the lines of a new file."""

    change: InstanceOf[FileDiff] = FileDiff()
    warnings: list[str] = []

    def written_files(self) -> tuple[WrittenFile, ...]:
        """Return the written files, with how many lines each gained and lost."""
        raise NotImplementedError

    def report(self, done: str) -> str:
        """Return the text for the model: what was done, and a line for each warning."""
        return "\n".join([done, *(f"[{warning}]" for warning in self.warnings)])


class FileEdit(Struct, frozen=True, kw_only=True):
    """A file as it is now (``old`` is None if it does not exist yet), and the text it will have."""

    path: Path
    name: str
    old: bytes | None
    decoded: DecodedText
    text: str

    def as_diff(self) -> FileDiff:
        """Return the change as a diff."""
        return file_diff(self.name, None if self.old is None else self.decoded.text, self.text)

    def encoded(self) -> bytes:
        """Return the bytes the file will have.

        Raises:
            ToolError: the encoding lacks one of the characters.
        """
        try:
            return self.decoded.encode(self.text)
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            if "\ud800" <= character <= "\udfff":
                problem = f"the text for {self.name!r} holds half a surrogate pair at character {error.start}"
                raise ToolError(f"{problem}; write the character itself") from error
            lacks = f"{self.name!r} is encoded as {self.decoded.encoding}, which lacks {character!r}"
            advice = "use characters it has, or convert it to UTF-8 first (bash: iconv)"
            raise ToolError(f"{lacks}; {advice}") from error

    def write(self, ctx: InvokeContext, data: bytes) -> tuple[FileDiff, list[str]]:
        """Create the file with ``data``, or replace its content; return the change and warnings. Blocks.

        The diff is empty if the file may hold secrets. An agent that knew the current version then knows the new one.

        Raises:
            ToolError: the file has changed meanwhile, or can't be written.
        """
        is_known = self.old is None or ctx.reads.is_current(self.path, self.old)
        note = ctx.workspace.write(self.path, self.name, data, previous=self.old)
        if is_known:
            ctx.reads.note(self.path, data)
        return FileDiff() if ctx.workspace.is_secret(self.path) else self.as_diff(), [note] if note else []


class EditTool(BaseTool[Args, Edited, Config, BaseToolState]):
    """The base class of tools that edit a text file."""

    edits_files: ClassVar[bool] = True

    @abstractmethod
    def planned(self, args: Args, workspace: Workspace) -> FileEdit:
        """Return the edit that a call would make. Fails as the call would."""

    def outlook(self, args: Args, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:
        """Return the file, how many lines it gains and loses and, if it exists, the diff. Fails as the call would."""
        del sandboxed
        edit = self.planned(args, workspace)
        diff = edit.as_diff()
        file = WrittenFile(path=edit.name, added=diff.added, removed=diff.removed, created=edit.old is None)
        display = DiffDisplay(files=(file,))
        return CallOutlook(display=display, cwd=str(workspace.root), diff="" if edit.old is None else diff.text)

    def display(self, result: Edited) -> DiffDisplay:
        """Return the files, and how many lines each gained and lost."""
        return DiffDisplay(files=result.written_files())

    def diff(self, result: Edited) -> str:
        """Return the diff of a file that existed before. It is empty for a file that may hold secrets."""
        return result.change.text

    def files_changed(self, result: Edited) -> tuple[str, ...]:
        """Return the paths of the files."""
        return tuple(file.path for file in result.written_files())
