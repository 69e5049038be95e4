"""PlanLines: asks about a plan, and shows its end, in a conversation line by line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vibe.app.plan.command_consent import model_commands
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import DraftVersion, PlanDraft
from vibe.app.plan.run import PlanRun
from vibe.cli.plain.line_desk import LineDesk, LineInput
from vibe.cli.terminal.person import TerminalPerson
from vibe.front.plan_graph import plan_text
from vibe.front.plan_listing import version_lines
from vibe.front.plan_summary import summary_text
from vibe.front.progress import ProgressLines
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.system.errors import VibeError
from vibe.system.plain_text import one_line, plain

ACCEPT = "Run it? [y] yes  [n] no  [e] edit  [s FILE] save, or type what to change  >"
LINE_LENGTH = 400
YES, NO, EDIT = frozenset({"y", "yes"}), frozenset({"", "n", "no"}), frozenset({"e", "edit"})
SAVE = frozenset({"s", "save"})
USUAL_FILE = "plan.json"


class PlanLines:
    """Shows a plan at this process's terminal and asks about it there.

    ``edited`` lets the person change a text in their editor, as a file with a given name; it blocks.
    """

    def __init__(self, lines: LineInput, desk: LineDesk, edited: Callable[[str, str], str]) -> None:
        self._lines = lines
        self._desk = desk
        self._edited = edited
        self._shown: DraftVersion | None = None
        """The version shown last."""

    def talk(self) -> PlanTalk:
        """Return the plan state of a conversation at this terminal."""
        return PlanTalk(accept=self.accept, audience=self.audience, ended=self.end)

    async def accept(self, draft: PlanDraft) -> PlanVerdict:
        """Show the latest version, unless it was shown already, and return the person's verdict."""
        if draft.versions[-1] is not self._shown:
            self._show(draft)
        self._shown = draft.versions[-1]
        while True:
            async with self._desk.conversation("") as dialogue:
                reply = (await dialogue.answer(ACCEPT) or "").strip()
            if reply.lower() not in EDIT:
                return _verdict(reply)
            document = await self._changed(draft.text)
            if document:
                return PlanVerdict(VerdictKind.EDIT, document)

    async def _changed(self, document: str) -> str:
        """Return the document as edited by the person, or ``""`` if it is unchanged or editing failed."""
        try:
            changed = await self._lines.aside(partial(self._edited, document, USUAL_FILE))
        except VibeError as error:
            self._lines.out.write(f"vibe: {plain(str(error))}\n")
            return ""
        return changed if changed.strip() != document.strip() else ""

    def audience(self) -> Audience:
        """Return the person as the audience of one run of a plan."""
        lines = ProgressLines(self._lines.out)
        person = TerminalPerson(self._desk, lines.view.asker)
        return Audience(listeners=[lines], approver=person, user_input=person.answer, decide=person.decide)

    def end(self, run: PlanRun) -> None:
        """Print the summary of a run."""
        self._lines.out.write(summary_text(run, in_chat=True))

    def _show(self, draft: PlanDraft) -> None:
        loaded = draft.loaded
        version = f"plan, version {len(draft.versions)}: {one_line(draft.goal, LINE_LENGTH)}"
        lines = [version, plan_text(loaded.plan)]
        if len(draft.versions) > 1:
            before = draft.versions[-2]
            lines += [f"changed since version {before.number}:", *version_lines(before.loaded, loaded)]
        lines += [
            f"  would run in {one.step_id}: {one_line(one.command, LINE_LENGTH)}" for one in model_commands(loaded.plan)
        ]
        lines += [f"note: {one_line(note, LINE_LENGTH)}" for note in draft.notes]
        self._lines.out.write("\n".join(lines) + "\n")


def _verdict(reply: str) -> PlanVerdict:
    word, _, rest = reply.partition(" ")
    if reply.lower() in YES:
        return PlanVerdict(VerdictKind.RUN)
    if reply.lower() in NO:
        return PlanVerdict(VerdictKind.DROP)
    if word.lower() in SAVE and " " not in rest.strip():
        return PlanVerdict(VerdictKind.SAVE, rest.strip() or USUAL_FILE)
    return PlanVerdict(VerdictKind.REVISE, reply)
