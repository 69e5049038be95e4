"""ReviewScreen: what the steps of a plan changed, in one scroll, with verdicts on files and comments on review."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import ClassVar

from anyio import to_thread
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.highlight import guess_language
from textual.message import Message
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from ipc.events import ReviewComment
from planner.store.folder import latest_in
from vibe.app.plan.review import ChangedFile, PlanReview, Standing
from vibe.app.plan.review_commands import Rejection, carry_out
from vibe.cli.textual_ui.log.markdown_blocks import highlighted
from vibe.cli.textual_ui.log.rows import GUTTER, LOOKS, LogBlock, drawn, lay_out, styled
from vibe.front import review
from vibe.front.cells import fit
from vibe.front.event_text import one_line
from vibe.front.review import ReviewDraft, ReviewRow, key_of
from vibe.front.slash.command import Talk
from vibe.front.slash.plan_proposal import go_on
from vibe.system.errors import UsageError

LIST_FROM = 70
"""Columns from which the files are listed beside the diffs."""


class ReviewSheet(ScrollView, can_focus=True):
    """The rows of all diffs, of which one is marked; a row is painted when it comes into sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "screen.file(-1)", "file before", show=False),
        Binding("down", "screen.file(1)", "next file", show=False),
        Binding("k", "screen.line(-1)", "line before", show=False),
        Binding("j", "screen.line(1)", "next line", show=False),
        Binding("a", "screen.accept", "accept the file", show=False),
        Binding("x", "screen.reject", "give the file back", show=False),
        Binding("c", "screen.comment", "comment on the line", show=False),
        Binding("z", "screen.sides", "side by side, or not", show=False),
        Binding("enter", "screen.apply", "send and apply", show=False),
    ]

    class Renewed(Message):
        """Its rows were made anew."""

    def __init__(self, changes: Sequence[ChangedFile], draft: ReviewDraft) -> None:
        super().__init__()
        self._changes = changes
        self._draft = draft
        self.chosen: bool | None = None
        """True: side by side, False: below each other, as the person chose; None: as there is room."""
        self.rows: list[ReviewRow] = []
        self.marked = 0

    @property
    def row(self) -> ReviewRow:
        """The row that is marked."""
        return self.rows[self.marked]

    @property
    def wide(self) -> bool:
        """True if the texts are side by side."""
        return self.screen.size.width >= review.SIDE_BY_SIDE if self.chosen is None else self.chosen

    def renew(self) -> None:
        """Have the rows made anew; the line that was marked stays so."""
        was = self.row if self.rows else None
        self.rows = review.review_rows(self._changes, self._draft, wide=self.wide)
        self.virtual_size = Size(self.size.width, len(self.rows))
        if was is None:
            self.mark_file(0)
        else:
            same = (at for at, row in enumerate(self.rows) if row.place == was.place)
            self._mark(next(same, min(self.marked, len(self.rows) - 1)))
        self.refresh()
        self.post_message(self.Renewed())

    def mark_file(self, number: int) -> None:
        """Mark the first line of a file, whose name comes to the top."""
        at = next(at for at, row in enumerate(self.rows) if row.file == number)
        self._mark(next((at for at, row in enumerate(self.rows[at:], at) if row.is_code), at))
        self.scroll_to(y=at, animate=False)

    def mark_line(self, by: int) -> None:
        """Mark the next line of a file, or the one before."""
        ahead = range(self.marked + 1, len(self.rows)) if by > 0 else range(self.marked - 1, -1, -1)
        self._mark(next((at for at in ahead if self.rows[at].is_code), self.marked))

    def _mark(self, at: int) -> None:
        self.marked, top, height = at, self.scroll_offset.y, max(1, self.size.height)
        if not top <= at < top + height:
            self.scroll_to(y=at if at < top else at - height + 1, animate=False)
        self.refresh()

    def on_resize(self) -> None:
        """Have the rows fit the width."""
        self.renew()

    def render_line(self, y: int) -> Strip:
        """Return a row, which is painted now."""
        at, cols = self.scroll_offset.y + y, self.size.width - GUTTER - 1
        if at >= len(self.rows) or cols <= 0:
            return Strip.blank(self.size.width, self.rich_style)
        row = self.rows[at]
        change = self._changes[row.file]
        line = review.draw_row(row, change, self._draft, cols, wide=self.wide)
        language = _language(change.name)
        content = Content.assemble(*(_piece(text, style, language) for text, style in line))
        mark = styled("▸", "$text-primary") if at == self.marked else None
        return lay_out(self, [LogBlock(content, mark=mark)], self.size.width)[0].strip


def _piece(text: str, style: str, language: str) -> Content:
    """A piece of a line; code in the colours of its language."""
    word, _, ground = style.partition(" ")
    if word != "code":
        return drawn([(text, style)])
    code = _coloured(text, language)
    return code.stylize(LOOKS[ground]) if ground else code


@lru_cache(maxsize=512)
def _language(path: str) -> str:
    return guess_language("", path) or "text"


_coloured = lru_cache(maxsize=4_096)(highlighted)


class ReviewScreen(Screen[bool]):
    """Has a person judge what the steps of a plan changed; ``draft`` keeps it. The result: it is to be carried out."""

    DEFAULT_CSS = """
    ReviewScreen .line { height: 1; padding: 0 1; text-wrap: nowrap; }
    ReviewScreen #files { width: 30%; max-width: 44; height: 1fr; padding: 0 1; text-wrap: nowrap; }
    ReviewScreen ReviewSheet { width: 1fr; border-left: solid $panel; scrollbar-size: 0 0; }
    ReviewScreen Horizontal { margin: 1 0; }
    ReviewScreen Input, ReviewScreen Input:focus { height: 1; border: none; padding: 0 1; display: none; }
    ReviewScreen.commenting Input { display: block; }
    ReviewScreen.commenting #keys { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "later", "later", show=False)]
    AUTO_FOCUS: ClassVar[str | None] = "ReviewSheet"

    def __init__(self, review: PlanReview, draft: ReviewDraft) -> None:
        super().__init__()
        self._review = review
        self._draft = draft
        self._said = ""
        self._sheet = ReviewSheet(review.changes, draft)
        self._input = Input(placeholder="your comment on this line", select_on_focus=False)

    @property
    def _at(self) -> tuple[ReviewRow, ChangedFile]:
        row = self._sheet.row
        return row, self._review.changes[row.file]

    def compose(self) -> ComposeResult:
        """A title, the files and their diffs, and the keys or the line of a comment."""
        yield Static(classes="line", id="title", markup=False)
        with Horizontal():
            yield Static(id="files", markup=False)
            yield self._sheet
        yield self._input
        yield Static(classes="line", id="keys", markup=False)

    @on(ReviewSheet.Renewed)
    def draw(self) -> None:
        """Draw all but the diffs."""
        changes, draft, cols = self._review.changes, self._draft, self.size.width - 2
        self.query_one("#title", Static).update(drawn(review.draw_title(self._review.goal, changes, draft, cols)))
        keys = fit([(one_line(self._said, cols), "warn")], cols) if self._said else review.draw_keys(draft, cols)
        self.query_one("#keys", Static).update(drawn(keys))
        self._said = ""
        files = self.query_one("#files", Static)
        files.display = cols >= LIST_FROM
        width, height = files.content_size
        shown = review.draw_files(changes, draft, self._at[0].file, (width, height))
        files.update(Content("\n").join(map(drawn, shown)))

    def action_file(self, by: int) -> None:
        """Go to another file."""
        self._sheet.mark_file(max(0, min(len(self._review.changes) - 1, self._at[0].file + by)))
        self.draw()

    def action_line(self, by: int) -> None:
        """Go to another line."""
        self._sheet.mark_line(by)
        self.draw()

    def action_accept(self) -> None:
        """Accept the file, or take that back."""
        key, draft = key_of(self._at[1]), self._draft
        draft.rejected.pop(key, None)
        draft.accepted ^= {key}
        self._sheet.renew()

    def action_reject(self) -> None:
        """Have the file given back, or not after all; one that others changed since, once that was said."""
        change, draft = self._at[1], self._draft
        key = key_of(change)
        draft.accepted.discard(key)
        if draft.rejected.pop(key, None) is None and change.standing is not Standing.REJECTED:
            by_others = change.standing is Standing.CHANGED
            draft.rejected[key] = by_others
            if by_others:
                self._said = f"{self._review.since(change)}: Enter gives it back and keeps a copy, x leaves it"
        self._sheet.renew()

    def action_comment(self) -> None:
        """Write a comment on the line, or change it."""
        row, change = self._at
        if review.may_comment(row, change):
            comments = self._draft.comments
            self._input.value = comments.get((key_of(change), row.line), "")
            self.add_class("commenting")
            self._input.focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Keep the comment; an empty one is taken back."""
        message.stop()
        row, change = self._at
        comments, place = self._draft.comments, (key_of(change), row.line)
        comments.pop(place, None)
        if message.value.strip():
            comments[place] = message.value.strip()
        self.action_later()
        self._sheet.renew()

    def action_sides(self) -> None:
        """Show the texts side by side, or below each other."""
        self._sheet.chosen = not self._sheet.wide
        self._sheet.renew()

    def action_apply(self) -> None:
        """Send the comments and give files back, if there is anything of that."""
        self.dismiss(bool(self._draft.comments or self._draft.rejected))

    def action_later(self) -> None:
        """From a comment to the diffs, and from there to the chat; the draft is kept."""
        if self.has_class("commenting"):
            self.remove_class("commenting")
            self._sheet.focus()
        else:
            self.dismiss(result=False)


async def review_plan(
    ask: Callable[[ReviewScreen], Awaitable[bool | None]], drafts: dict[str, ReviewDraft], talk: Talk, reference: str
) -> None:
    """Have a person review what a plan changed, and carry out what they decide; a step with comments is done again.

    Raises:
        UsageError: no step changed a file, or as ``carry_out``; the draft is kept.
    """
    host, session = talk.runtime.host, talk.plans.session
    here = session or await to_thread.run_sync(latest_in, host.home, str(talk.opening.workdir))
    meant = reference or (here and here.plan_id)
    if not meant:
        raise UsageError("no plan has been run in this folder: /plan GOAL proposes one")
    found = await to_thread.run_sync(PlanReview, host, meant)
    if not found.changes:
        raise UsageError(f"plan {found.plan_id}: no recorded step changed a file")
    draft = drafts.setdefault(found.plan_id, ReviewDraft())
    if not await ask(ReviewScreen(found, draft)):
        return
    by_key = {key_of(change): change for change in found.changes}
    rejected = [Rejection(by_key[key], force) for key, force in draft.rejected.items() if key in by_key]
    comments: list[tuple[str, ReviewComment]] = []
    for (key, line), text in draft.comments.items():
        if change := by_key.get(key):
            comment = await to_thread.run_sync(found.comment, change, (line, line), text)
            comments.append((change.step_id, comment))
    done = await carry_out(host.as_writer(), found, rejected, comments, tell=talk.say)
    drafts.pop(found.plan_id, None)
    talk.say(done.message)
    if comments and talk.plans.session is None:
        go_on(talk, found.plan_id)
