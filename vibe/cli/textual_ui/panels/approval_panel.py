"""ApprovalPanel: a call that waits for a yes, shown as it would run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

from textual.content import Content

from ipc.commands import Approve
from ipc.events import ApprovalRequestEvent, CommandDisplay
from vibe.cli.terminal.approval_text import FULL, SHOWN_BY_DIFF, covered, is_repeated, visible, why, without_gaps
from vibe.cli.textual_ui.panels.line_view import Line
from vibe.cli.textual_ui.panels.panel_frame import LATER_KEY, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.request_queue import PendingRequest

LONG: Final = 12
"""Lines of a call above which the reason for asking stands before it: it must not be far below."""
BAR: Final = "│ "
SHORT: Final = 200
SCOPES: Final[Mapping[str, Literal["once", "session", "always"]]] = {"1": "once", "2": "session", "3": "always"}
AT_A_LINE: Final = {"y": "1", "s": "2", "a": "3"}
"""The letters by which the same is answered at a terminal without a screen."""
DIFF_STYLES: Final = {"+": "$text-success", "-": "$text-error", "@": "$text-accent"}


class ApprovalPanel(PanelFrame):
    """Asks for a yes to a call. Enter alone says nothing; Esc puts a step's off, and stops an agent of the chat."""

    TITLE: ClassVar[str] = "Permission"
    DEFAULT_CSS = """
    ApprovalPanel { border-top: solid $warning; border-title-color: $text-warning; }
    """

    def __init__(self, pending: PendingRequest, event: ApprovalRequestEvent, guard: TypingGuard) -> None:
        super().__init__(guard)
        self._pending = pending
        self._event = event

    def lines(self) -> Sequence[Line]:
        """Return the call, the rule that asks, and what a lasting yes would let pass."""
        return approval_lines(self._event, self._pending.step_title)

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the answers."""
        short = self.is_narrow
        lasting = [("2", "session" if short else "this session"), ("3", "always")] if self._event.covers else []
        edits = [("e", "edits" if short else "all edits of this run")] if self._event.edits else []
        if short:
            return [("1", "once"), *lasting, ("n", "no"), *edits]
        escape = LATER_KEY if self._pending.step_title else ("Esc", "stop the agent")
        return [("1", "once"), *lasting, *edits, ("n", "no"), escape]

    def pressed(self, key: str) -> bool:
        """Answer, if the key is offered."""
        if key == "escape":
            if self._pending.step_title:
                self.post_message(self.PutOff())
            return bool(self._pending.step_title)
        key = AT_A_LINE.get(key, key)
        if key not in {name for name, _ in self.keys()}:
            return key in {"enter", "space"} | SCOPES.keys()
        if key == "n":
            self.ask_words("reason (optional)", self._refuse)
        else:
            answer = Approve(request_id=self._pending.id, allow=True, scope=SCOPES.get(key, "edits"))
            self.reply(self._pending, answer)
        return True

    def _refuse(self, reason: str) -> None:
        self.reply(self._pending, Approve(request_id=self._pending.id, allow=False, reason=reason))


def approval_lines(event: ApprovalRequestEvent, step_title: str = "") -> list[Line]:
    """Return all of a call that waits for a yes; nothing in it is cut or can act on the terminal."""
    whose = f"  for step: {visible(step_title)}" if step_title else ""
    heading = Line(
        text=Content.assemble((visible(event.tool), "bold"), " wants to run", (whose, "$text-secondary")), indent=2
    )
    call, about = _call(event), _about(event)
    return [heading, *about, *call] if len(call) > LONG else [heading, *call, *about]


def _call(event: ApprovalRequestEvent) -> list[Line]:
    lines: list[Line] = []
    if event.summary and not is_repeated(event):
        lines.append(Line(text=visible(event.summary), style="bold", indent=2))
    shown = {name: value for name, value in event.arguments.items() if not event.diff or name not in SHOWN_BY_DIFF}
    for name in sorted(shown, key=lambda name: name not in FULL):
        value = shown[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += _argument(name, text, alone=len(shown) == 1 and name == "command")
    if not shown and isinstance(event.preview, CommandDisplay):
        lines += _argument("command", event.preview.command, alone=True)
    if event.diff:
        lines += map(_diff_line, event.diff.removesuffix("\n").split("\n"))
    return lines


def _argument(name: str, text: str, *, alone: bool) -> list[Line]:
    is_full = name in FULL
    style = "bold" if is_full else ""
    rows = without_gaps(text if is_full else text.removesuffix("\n"))
    if len(rows) == 1 and len(text) <= SHORT and not alone:
        said = Content.assemble((f"{visible(name)}: ", "$foreground-muted"), (visible(rows[0]), style))
        return [Line(text=said, words=False, indent=2)]
    count = f" ({len(rows)} lines)" if len(rows) > LONG else ""
    head = [] if alone and not count else [Line(text=f"{visible(name)}{count}:", style="$foreground-muted")]
    return [*head, *(Line(text=visible(row), style=style, lead=BAR, words=False) for row in rows)]


def _diff_line(text: str) -> Line:
    is_name = text.startswith(("+++", "---"))
    style = "bold" if is_name else DIFF_STYLES.get(text[:1], "")
    return Line(text=visible(text.expandtabs(4)), style=style, lead=BAR, words=False)


def _about(event: ApprovalRequestEvent) -> list[Line]:
    lines = [Line(text=visible(why(event)), style="$text-warning", indent=2)]
    where = [f"in {visible(event.cwd)}"] if event.cwd else []
    if event.confined is not None:
        where.append("confined in a sandbox" if event.confined else "not sandboxed: it can do anything you can")
    if where:
        lines.append(Line(text=", ".join(where), style="$foreground-muted", indent=2))
    if event.covers:
        lines.append(Line(text=f"2 allows in this session, 3 in this folder always: {covered(event)}", indent=2))
    else:
        lines.append(Line(text="this can only be allowed once", style="$foreground-muted", indent=2))
    return lines
