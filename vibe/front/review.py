"""Draws the review of a plan's changes as lines: the files by step, the rows of all diffs, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Final, TypeAlias

from msgspec import Struct, field

from vibe.app.plan.review import ChangedFile, FileState
from vibe.front.cells import Line, cells_of, cut, fit, spread
from vibe.front.diff_lines import SIGNS, DiffLine, diff_lines
from vibe.system.plain_text import counted, one_line, plus_minus

SIDE_BY_SIDE: Final = 160
"""Columns from which the old text is shown beside the new one."""
_SIGNS: Final = {"accepted": ("✓", "done"), "rejected": ("✗", "failed"), "open": ("·", "muted")}
MORE_KEYS: Final = 150
"""Columns from which the rarely used keys are named too."""
KEY: Final = "bold accent"
FileKey: TypeAlias = tuple[str, str, int]
"""The step, path and attempt of a change."""
Comments: TypeAlias = dict[tuple[FileKey, int], tuple[int, str]]


class ReviewDraft(Struct, kw_only=True):
    """A person's review before it is sent: changes with a verdict, and comments by line of the new text.

    ``rejected`` maps each rejected change to whether others have changed the file since, which the person was told. A
    comment is stored under the last line that it is about, with the first one.
    """

    accepted: set[FileKey] = field(default_factory=set[FileKey])
    rejected: dict[FileKey, bool] = field(default_factory=dict[FileKey, bool])
    comments: Comments = field(default_factory=Comments)

    def verdict(self, change: ChangedFile) -> str:
        """Return ``accepted``, ``rejected`` or ``open``."""
        key = key_of(change)
        if key in self.rejected or change.standing is FileState.REJECTED:
            return "rejected"
        return "accepted" if key in self.accepted else "open"


class ReviewRow(Struct, frozen=True, kw_only=True):
    """A row of file number ``file``: a line on the ``left``, the ``right`` or both, a ``comment``, or else its name.

    ``old`` and ``new`` are line numbers, 0 if there is none. ``note`` stands in for lines that are not shown.
    """

    file: int
    old: int = 0
    new: int = 0
    left: str | None = None
    right: str | None = None
    comment: str = ""
    note: str | None = None

    @property
    def is_code(self) -> bool:
        """True for a line of a file."""
        return bool(self.old or self.new)

    @property
    def place(self) -> tuple[int, int, int]:
        """The file, and the new or else the old line number: the same however the texts are laid out."""
        return self.file, self.new, 0 if self.new else self.old

    @property
    def line(self) -> int:
        """The line that a comment on this row belongs to, in the new text or in a removed file."""
        return self.new or (self.old if self.right is None else 0)


def author(change: ChangedFile) -> str:
    """Return the step that made a change, and which of its attempts if there were several."""
    return f"{change.step_id}, try {change.attempt}" if change.attempt > 1 else change.step_id


def diff_of(change: ChangedFile) -> str:
    """Return the diff of a change, or words for why there is none."""
    before, after = change.texts
    if change.diff.text or (before != after and (before or after)):
        return change.diff.text or "too much changed to be compared"
    return "only its permissions changed" if before == after else "the file is empty"


def key_of(change: ChangedFile) -> FileKey:
    """Return the key that identifies a change."""
    return change.step_id, change.path, change.attempt


def review_rows(changes: Sequence[ChangedFile], draft: ReviewDraft, *, wide: bool) -> Iterator[ReviewRow]:
    """Yield the rows of all changes, one below the other; if ``wide``, old and new text side by side."""
    for number, change in enumerate(changes):
        yield from (ReviewRow(file=number), ReviewRow(file=number, note=""))
        for row in _of_diff(number, change, wide=wide):
            yield row
            place = key_of(change), row.line
            if place in draft.comments and may_comment(row, change):
                first, text = draft.comments[place]
                which = f"{first}–{row.line}: " if first < row.line else ""  # noqa: RUF001  to
                yield ReviewRow(file=number, comment=which + text)
        yield ReviewRow(file=number, note="")


def may_comment(row: ReviewRow, change: ChangedFile) -> bool:
    """Return whether a row belongs to the text that the step left, or to a file that it removed."""
    return bool(row.new) or (row.is_code and change.after is None)


def _of_diff(number: int, change: ChangedFile, *, wide: bool) -> Iterator[ReviewRow]:
    lines = [line for line in diff_lines(diff_of(change)) if line.sign != "@"]
    for is_change, group in groupby(lines, key=lambda line: line.sign in {"-", "+"}):
        rows = [_row(number, line) for line in group]
        if is_change and wide:
            yield from _beside(number, [row for row in rows if row.old], [row for row in rows if row.new])
        else:
            yield from rows


def _row(number: int, line: DiffLine) -> ReviewRow:
    if line.sign not in SIGNS:
        return ReviewRow(file=number, note=line.text)
    left, right = (line.text if each else None for each in (line.old, line.new))
    return ReviewRow(file=number, old=line.old, new=line.new, left=left, right=right)


def _beside(number: int, gone: Sequence[ReviewRow], come: Sequence[ReviewRow]) -> Iterator[ReviewRow]:
    for one, other in zip_longest(gone, come, fillvalue=ReviewRow(file=number)):
        yield ReviewRow(file=number, old=one.old, left=one.left, new=other.new, right=other.right)


def draw_row(row: ReviewRow, change: ChangedFile, draft: ReviewDraft, cols: int, *, wide: bool) -> Line:
    """Return a row in exactly ``cols`` cells. Pieces styled ``code`` are in the file's language."""
    if row.comment:
        goes = [(f"goes to {change.step_id}" if change.step_id else "goes into your line", "muted")]
        return spread([("▌ you  ", "bold warn"), (one_line(row.comment, cols), "")], goes, cols)
    if row.note is not None:
        return fit([(f"      {row.note}", "muted")], cols)
    if not row.is_code:
        return _head(change, draft, cols)
    if not wide:
        sign = " " if row.old and row.new else "-" if row.old else "+"
        return _side(row.new or row.old, sign, row.left if row.right is None else row.right, cols)
    same = row.old > 0 and row.new > 0 and row.left == row.right
    half = (cols - 3) // 2
    left = _side(row.old, " " if same else "-", row.left, half)
    return [*left, (" │ ", "muted"), *_side(row.new, " " if same else "+", row.right, cols - 3 - half)]


def _side(number: int, sign: str, text: str | None, cols: int) -> Line:
    if text is None or not number:
        return fit([], cols)
    ground, colour = SIGNS[sign]
    ground = ground and f" {ground}"
    lead: Line = [(f"{number:>5} ", f"muted{ground}"), (f"{sign} ", f"{colour}{ground}")]
    shown = cut(text, max(0, cols - 8))
    rest = "" if shown == text else shown[-1:]
    blank = " " * (cols - 8 - cells_of([(shown, "")]))
    return fit([*lead, (shown.removesuffix(rest), f"code{ground}"), (rest + blank, f"muted{ground}")], cols)


def _head(change: ChangedFile, draft: ReviewDraft, cols: int) -> Line:
    since = f" {change.standing.value}" if change.standing is FileState.CHANGED else ""
    by = f"  by {author(change)}" if change.step_id else ""
    what = "  new" if change.before is None else "  deleted" if change.after is None else ""
    name: Line = [(one_line(change.name, cols), "bold"), (by + what, "muted"), (since, "warn")]
    verdict = draft.verdict(change)
    sign, style = _SIGNS[verdict]
    shown = (f"  {verdict}", "muted") if verdict == "open" else (f"  {sign} {verdict}", style)
    return spread(name, [(plus_minus([change.diff]), "muted"), shown], cols)


def draw_files(changes: Sequence[ChangedFile], draft: ReviewDraft, chosen: int, size: tuple[int, int]) -> list[Line]:
    """Return the files below their steps, in as many lines as ``size`` (columns, rows) has; the chosen one is shown."""
    cols, rows = size
    lines: list[Line] = []
    at, step_id = 0, ""
    for number, change in enumerate(changes):
        if change.step_id != step_id:
            step_id = change.step_id
            lines.append(fit([(step_id, "muted")], cols))
        at = len(lines) if number == chosen else at
        is_chosen = number == chosen
        mark = ("▸ ", "accent") if is_chosen else ("  ", "")
        sign, style = _SIGNS[draft.verdict(change)]
        name = (one_line(change.name, cols), "bold" if is_chosen else "")
        lines.append(spread([mark, (f"{sign} ", style), name], [(plus_minus([change.diff]), "muted")], cols))
    start = max(0, min(at - rows // 2, len(lines) - rows))
    return lines[start : start + rows]


def draw_title(goal: str, changes: Sequence[ChangedFile], draft: ReviewDraft, cols: int) -> Line:
    """Return the title line: the plan's goal, and how many files are accepted, rejected and open."""
    verdicts = [draft.verdict(change) for change in changes]
    counts = " · ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in _SIGNS if verdicts.count(verdict))
    return spread([("Review", "bold"), (f"  {one_line(goal, cols)}", "muted")], [(counts, "muted")], cols)


def draw_keys(draft: ReviewDraft, cols: int) -> Line:
    """Return the bottom line: the keys, and what Enter does."""
    send = counted(len(draft.comments), "comment")
    send = f"send {send}" if any(key[0] for key, _ in draft.comments) else f"{send} into your line"
    parts = [send] if draft.comments else []
    parts += [f"give back {counted(len(draft.rejected), 'file')}"] if draft.rejected else []
    words = ["a", "accept", "x", "reject", "c", "comment", "z", "side by side", "↑↓", "file", "j k", "line"]
    words += ["Shift+↑↓", "more lines"] if cols >= MORE_KEYS else []
    keys = [(f"{word} ", KEY) if at % 2 == 0 else (f"{word}  ", "muted") for at, word in enumerate(words)]
    does = [("Enter ", KEY), (", ".join(parts), ""), ("  ", "")] if parts else []
    return spread(keys, [*does, ("Esc ", KEY), ("later", "muted")], cols)
