"""ReviewScreen: shows what a plan or a chat changed, for verdicts on files and comments on lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from anyio import CancelScope, to_thread
from msgspec import MsgspecError, Struct, msgpack
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
from textual.widgets import Static

from ipc.events import PlanToldEvent, ReviewComment
from planner.store.folder import plans_in
from subagents.step.prompts import told_message
from vibe.app.plan.review import ChangedFile, FileState, PlanReview, comment_on
from vibe.app.plan.review_commands import Rejection, carry_out
from vibe.cli.textual_ui.input.prompt_area import OneLine, priority_binding
from vibe.cli.textual_ui.log.markdown_blocks import highlighted
from vibe.cli.textual_ui.log.rows import GUTTER, LOOKS, LogBlock, drawn, lay_out, styled
from vibe.core.session.restoring import FileBack
from vibe.core.session.snapshots import PathState
from vibe.core.tools.edits import FileDiff
from vibe.front import review
from vibe.front.cells import fit
from vibe.front.listings import restored_lines
from vibe.front.review import FileKey, ReviewDraft, ReviewRow, key_of, may_comment, review_rows
from vibe.front.slash.command import Talk, TypedCommand
from vibe.front.slash.commands.files import going_back
from vibe.front.slash.plan_proposal import go_on
from vibe.system.errors import UsageError
from vibe.system.files import regular_bytes, replace_file, writing
from vibe.system.plain_text import one_line

LIST_FROM = 70
"""The width in columns from which the files are listed beside the diffs."""


class ReviewSheet(ScrollView, can_focus=True):
    """Shows the rows of all diffs, one of them marked; a row is painted when it comes into sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        priority_binding("up", "screen.file(-1)", "file before"),
        priority_binding("down", "screen.file(1)", "next file"),
        priority_binding("k", "screen.line(-1)", "line before"),
        priority_binding("j", "screen.line(1)", "next line"),
        priority_binding("shift+up", "screen.line(-1, 1)", "with the line before"),
        priority_binding("shift+down", "screen.line(1, 1)", "with the next line"),
        priority_binding("a", "screen.accept", "accept the file"),
        priority_binding("x", "screen.reject", "give the file back"),
        priority_binding("c", "screen.comment", "comment on the line"),
        priority_binding("z", "screen.sides", "side by side, or not"),
        priority_binding("enter", "screen.apply", "send and apply"),
    ]

    class Renewed(Message):
        """Posted when the rows were made again."""

    def __init__(self, changes: Sequence[ChangedFile], draft: ReviewDraft) -> None:
        super().__init__()
        self._changes = changes
        self._draft = draft
        self.chosen: bool | None = None
        """The person's choice, True for texts side by side; None to decide by the room there is."""
        self.rows: list[ReviewRow] = []
        self.marked = 0
        self._anchor: int | None = None
        """The row at which marking several rows began; None if only one is marked."""

    @property
    def row(self) -> ReviewRow:
        """The marked row."""
        return self.rows[self.marked]

    @property
    def wide(self) -> bool:
        """True if the texts are shown side by side."""
        return self.screen.size.width >= review.SIDE_BY_SIDE if self.chosen is None else self.chosen

    @property
    def all_marked(self) -> range:
        """The indices of all marked rows."""
        ends = sorted((self.marked, self.marked if self._anchor is None else self._anchor))
        return range(ends[0], ends[1] + 1)

    def renew(self) -> None:
        """Make the rows again, and keep the mark on the same line."""
        was = self.row if self.rows else None
        self.rows = list(review.review_rows(self._changes, self._draft, wide=self.wide))
        self.virtual_size = Size(self.size.width, len(self.rows))
        if was is None:
            self.mark_file(0)
        else:
            same = (at for at, row in enumerate(self.rows) if row.place == was.place)
            self._mark(next(same, min(self.marked, len(self.rows) - 1)))
        self.refresh()
        self.post_message(self.Renewed())

    def mark_file(self, number: int) -> None:
        """Mark the first line of a file, and scroll its name to the top."""
        at = next(at for at, row in enumerate(self.rows) if row.file == number)
        self._mark(next((at for at, row in enumerate(self.rows[at:], at) if row.is_code), at))
        self.scroll_to(y=at, animate=False)

    def mark_line(self, by: int, *, more: bool = False) -> None:
        """Move the mark to the next (1) or previous (-1) line, or extend it there if ``more``."""
        anchor = self.marked if self._anchor is None else self._anchor
        ahead = range(self.marked + 1, len(self.rows)) if by > 0 else range(self.marked - 1, -1, -1)
        self._mark(next((at for at in ahead if self.rows[at].is_code), self.marked))
        self._anchor = anchor if more else None

    def commentable(self) -> list[int]:
        """Return the lines that a comment is about: the marked ones, or if none can have one, the next, then marked."""
        file, change = self.row.file, self._changes[self.row.file]
        places = [at for at, row in enumerate(self.rows) if row.file == file and review.may_comment(row, change)]
        if places and not {*places} & {*self.all_marked}:
            self._mark(next((at for at in places if at > self.marked), places[-1]))
        return [self.rows[at].line for at in places if at in self.all_marked]

    def _mark(self, at: int) -> None:
        self.marked, self._anchor, top, height = at, None, self.scroll_offset.y, max(1, self.size.height)
        if not top <= at < top + height:
            self.scroll_to(y=at if at < top else at - height + 1, animate=False)
        self.refresh()

    def on_resize(self) -> None:
        """Fit the rows to the width."""
        self.renew()

    def render_line(self, y: int) -> Strip:
        """Paint and return a row."""
        at, cols = self.scroll_offset.y + y, self.size.width - GUTTER - 1
        if at >= len(self.rows) or cols <= 0:
            return Strip.blank(self.size.width, self.rich_style)
        row = self.rows[at]
        change = self._changes[row.file]
        line = review.draw_row(row, change, self._draft, cols, wide=self.wide)
        language = _language(change.name)
        content = Content.assemble(*(_piece(text, style, language) for text, style in line))
        mark = styled("▸", "$text-primary") if at in self.all_marked else None
        return lay_out(self, [LogBlock(content, mark=mark)], self.size.width)[0].strip


def _piece(text: str, style: str, language: str) -> Content:
    """Return a piece of a line; code is highlighted in its language."""
    word, _, ground = style.partition(" ")
    if word != "code":
        return drawn([(text, style)])
    code = _coloured(text, language)
    return code.stylize(LOOKS[ground]) if ground else code


@lru_cache(maxsize=512)
def _language(path: str) -> str:
    return guess_language("", path) or "text"


_coloured = lru_cache(maxsize=4_096)(highlighted)


class ChatReview(Struct, frozen=True, kw_only=True):
    """The changes made by the agent of a conversation."""

    changes: tuple[ChangedFile, ...]
    goal: str = "what this conversation changed"

    def since(self, change: ChangedFile) -> str:
        """Return words that say a file was changed by others, too."""
        return f"{one_line(change.name)} was changed elsewhere, too"


class ReviewScreen(Screen[bool]):
    """Lets the person judge what a plan or a chat changed; ``draft`` keeps the verdicts and comments.

    The result is True if they are to be carried out.
    """

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

    def __init__(self, review: PlanReview | ChatReview, draft: ReviewDraft) -> None:
        super().__init__()
        self._review = review
        self.draft = draft
        self._warning = ""
        self._place: tuple[FileKey, int] = (("", "", 0), 0)
        self._first = 0
        """The first line of the comment at ``_place``, which is being written."""
        self._sheet = ReviewSheet(review.changes, draft)
        self._input = OneLine(select_on_focus=False)

    @property
    def _at(self) -> tuple[ReviewRow, ChangedFile]:
        row = self._sheet.row
        return row, self._review.changes[row.file]

    def compose(self) -> ComposeResult:
        """Compose the title, the files and their diffs, and the keys or the input for a comment."""
        yield Static(classes="line", id="title", markup=False)
        with Horizontal():
            yield Static(id="files", markup=False)
            yield self._sheet
        yield self._input
        yield Static(classes="line", id="keys", markup=False)

    @on(ReviewSheet.Renewed)
    def draw(self) -> None:
        """Draw everything but the diffs."""
        changes, draft, cols = self._review.changes, self.draft, self.size.width - 2
        self.query_one("#title", Static).update(drawn(review.draw_title(self._review.goal, changes, draft, cols)))
        keys = fit([(one_line(self._warning, cols), "warn")], cols) if self._warning else review.draw_keys(draft, cols)
        self.query_one("#keys", Static).update(drawn(keys))
        self._warning = ""
        files = self.query_one("#files", Static)
        files.display = cols >= LIST_FROM
        shown = review.draw_files(changes, draft, self._at[0].file, files.content_size)
        files.update(Content("\n").join(map(drawn, shown)))

    def action_file(self, by: int) -> None:
        """Go to another file."""
        self._sheet.mark_file(max(0, min(len(self._review.changes) - 1, self._at[0].file + by)))
        self.draw()

    def action_line(self, by: int, more: int = 0) -> None:
        """Go to another line, or with ``more`` (1) extend or shrink the marked lines by it."""
        self._sheet.mark_line(by, more=bool(more))
        self.draw()

    def action_accept(self) -> None:
        """Accept the current file, or take that back."""
        key, draft = key_of(self._at[1]), self.draft
        draft.rejected.pop(key, None)
        draft.accepted ^= {key}
        self._sheet.renew()

    def action_reject(self) -> None:
        """Reject the current file, which gives it back, or take that back; warn if others have changed it since."""
        change, draft = self._at[1], self.draft
        key = key_of(change)
        draft.accepted.discard(key)
        if draft.rejected.pop(key, None) is None and change.standing is not FileState.REJECTED:
            by_others = change.standing is FileState.CHANGED
            draft.rejected[key] = by_others
            if by_others:
                self._warning = f"{self._review.since(change)}: Enter gives it back and keeps a copy, x leaves it"
        self._sheet.renew()

    def action_comment(self) -> None:
        """Open the input for a comment on the marked lines, or else on the line in their place."""
        lines = self._sheet.commentable()
        if not lines:
            self._warning = "this file has no line to comment on"
            self.draw()
            return
        self._place = key_of(self._at[1]), lines[-1]
        first, text = self.draft.comments.get(self._place, (lines[0], ""))
        first = self._first = lines[0] if lines[1:] else first
        which = f"lines {first} to {lines[-1]}" if first < lines[-1] else "this line"
        self._input.placeholder = f"your comment on {which}"
        self._input.value = text
        self.add_class("commenting")
        self.set_focus(self._input)

    def on_input_changed(self) -> None:
        """Keep the comment as far as it is typed; a blank one is none."""
        text = self._input.value.strip()  # a message may come late, when this is the next comment
        self.draft.comments.pop(self._place, None)
        if text:
            self.draft.comments[self._place] = self._first, text

    def on_input_submitted(self) -> None:
        """Go back to the diffs."""
        self.action_later()

    def action_sides(self) -> None:
        """Toggle between texts side by side and below each other."""
        self._sheet.chosen = not self._sheet.wide
        self._sheet.renew()

    def action_apply(self) -> None:
        """Close, to send the comments and give back the rejected files if there are any."""
        self.dismiss(bool(self.draft.comments or self.draft.rejected))

    def action_later(self) -> None:
        """Go back from a comment to the diffs, and from there to the chat; the draft is kept."""
        if self.has_class("commenting"):
            self.on_input_changed()
            self.remove_class("commenting")
            self.set_focus(self._sheet)
            self._sheet.renew()
        else:
            self.dismiss(result=False)


Ask: TypeAlias = Callable[[ReviewScreen], Awaitable[bool | None]]
Send: TypeAlias = Callable[[ReviewDraft], Awaitable[None]]
DRAFT_FILE: Final = "review.msgpack"
"""The file with the draft of a review, in the folder of the plan or the session."""
CHAT: Final = "chat"
"""The reference that stands for the conversation, in place of a plan's id."""
UNCHANGED: Final = "nothing to give back: all is as it was before"


async def review_changes(ask: Ask, talk: Talk, typed: TypedCommand) -> None:
    """Let the person review what a plan or the conversation changed, and carry out what they decide.

    Without a reference, review the plan that is running, else the one that ran last unless it is older than the
    conversation, else the conversation.

    Raises:
        UsageError: no file was changed, or as for ``carry_out``; the draft is kept.
        BusyError: the agent is at work, and may be changing files.
        EnvironmentFailure: the files of that time are not known, or git or the disk fails.
    """
    meant, is_new = (typed.rest, True) if typed.rest else await to_thread.run_sync(_plan_here, talk)
    if meant == CHAT or not is_new:
        found = await to_thread.run_sync(going_back, talk, 0)
        if found:
            chat = ChatReview(changes=tuple(_changed_file(*each) for each in found))
            await _judge(ask, talk, chat, talk.conversation.session.folder.path, partial(_send_of_chat, talk, chat))
            return
    if meant in {"", CHAT}:
        raise UsageError("/review: no file has changed in this conversation, and no plan has been run in this folder")
    plan = await to_thread.run_sync(PlanReview, talk.runtime.host, meant)
    if not plan.changes:
        raise UsageError(f"plan {plan.plan_id}: no recorded step changed a file")
    await _judge(ask, talk, plan, plan.folder.path, partial(_send_of_plan, talk, plan))


async def _judge(ask: Ask, talk: Talk, found: PlanReview | ChatReview, folder: Path, send: Send) -> None:
    """Have the draft of a review judged and sent; until it is sent it is kept, even if the process is told to end."""
    path = folder / DRAFT_FILE
    draft = ReviewDraft()
    with suppress(OSError, MsgspecError):
        draft = msgpack.decode(await to_thread.run_sync(regular_bytes, path), type=ReviewDraft)
    before = msgpack.encode(draft)
    latest = {key[:2]: key for key in map(key_of, found.changes)}  # a step may have been tried again since
    rows = [(change, row) for change in found.changes for row in review_rows([change], ReviewDraft(), wide=False)]
    shown = {(key_of(change), row.line) for change, row in rows if may_comment(row, change)}
    comments, draft.comments = draft.comments, {}
    for (key, last), (first, text) in comments.items():
        place = latest.get(key[:2], key), last
        if place in shown:
            draft.comments[place] = first, text
        else:
            talk.say(f"line {last} of {one_line(key[1])} is not among the changes any more; your comment was: {text}")
    try:
        if await ask(ReviewScreen(found, draft)):
            await send(draft)
            draft = ReviewDraft()
    finally:
        if (after := msgpack.encode(draft)) != before:
            with CancelScope(shield=True), writing(f"{path}"):
                await to_thread.run_sync(partial(replace_file, path, after, sync=False))


def _plan_here(talk: Talk) -> tuple[str, bool]:
    """Return the id of the running or else the latest plan, or blank, and whether it is as new as the conversation."""
    if latest := talk.plans.latest:
        return latest, True
    folder = next(plans_in(talk.runtime.host.home, str(talk.opening.workdir)), None)
    began = min(talk.asked_at.values(), default=0.0)
    return ("", False) if folder is None else (folder.plan_id, folder.settings().created >= began)


def _changed_file(file: FileBack, diff: FileDiff) -> ChangedFile:
    before, after = (None if text is None else PathState(mode=0) for text in (file.before, file.now))
    standing = FileState.CHANGED if file.by_others else FileState.OPEN
    texts = file.before, file.now
    return ChangedFile(
        step_id="", attempt=1, path=file.path, before=before, after=after, texts=texts, diff=diff, standing=standing
    )


async def _send_of_chat(talk: Talk, found: ChatReview, draft: ReviewDraft) -> None:
    """Give back rejected files of a conversation, and put the comments into the prompt."""
    by_key = {key_of(change): change for change in found.changes}
    comments = [comment_on(by_key[key], (first, at), text) for (key, at), (first, text) in draft.comments.items()]
    rejected = {path for _, path, _ in draft.rejected.keys() & by_key.keys()}
    if rejected:
        report = await talk.conversation.rewind(0, chat=False, only=rejected)
        for line in restored_lines(report.files) or [UNCHANGED]:
            talk.say(line)
    if comments:
        talk.suggest(told_message(PlanToldEvent(step_id="", comments=tuple(comments))))


async def _send_of_plan(talk: Talk, found: PlanReview, draft: ReviewDraft) -> None:
    """Carry out what the person decides about a plan's changes; a step with comments is done again."""
    if draft.comments and talk.plans.session is None:
        talk.plans.check_free()
    by_key = {key_of(change): change for change in found.changes}
    rejected: list[Rejection] = []
    for change in filter(None, map(by_key.get, draft.rejected)):
        if await to_thread.run_sync(found.standing, change) is not FileState.REJECTED:  # meanwhile
            rejected.append(Rejection(change, draft.rejected[key_of(change)]))
    comments: list[tuple[str, ReviewComment]] = []
    for (key, last), (first, text) in draft.comments.items():
        comments.append((key[0], await to_thread.run_sync(found.comment, by_key[key], (first, last), text)))
    done = await carry_out(talk.runtime.host.as_writer(), found, rejected, comments, tell=talk.say)
    talk.say(done.message or UNCHANGED)
    if comments and talk.plans.session is None:
        go_on(talk, found.plan_id)
