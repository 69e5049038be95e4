"""Changes of a plan to review, without a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from ipc.events import ReviewComment
from vibe.app.plan.review import ChangedFile, FileState, PlanReview
from vibe.core.session.snapshots import PathState
from vibe.core.tools.edits import file_diff

CART = """from shop.money import round


class Cart:
    def __init__(self, items, discount):
        self.items = items
        self.discount = discount

    def total(self) -> float:
        total = sum(item.price for item in self.items)
        return total - self.discount

    def count(self) -> int:
        return len(self.items)
"""
FIXED = CART.replace("item.price for", "item.price * item.count for").replace(
    "total - self.discount", "round(total * (1 - self.discount), 2)"
)
EXPORT = "import csv\nfrom io import StringIO\n\n\ndef to_csv(cart):\n    out = StringIO()\n    return out.getvalue()\n"


def changed(
    step_id: str,
    path: str,
    before: str | None,
    after: str | None,
    attempt: int = 1,
    standing: FileState = FileState.OPEN,
) -> ChangedFile:
    """Return a change of a file from one text to another. None means that there is no file."""
    states = (None if text is None else PathState(0o100644, f"{hash(text)}") for text in (before, after))
    return ChangedFile(
        step_id=step_id,
        attempt=attempt,
        path=path,
        before=next(states),
        after=next(states),
        texts=(before, after),
        diff=file_diff(path, before, after, whole=True),
        standing=standing,
    )


SHOP = (
    changed("totals", "shop/cart.py", CART, FIXED, attempt=2),
    changed("totals", "tests/test_cart.py", "import unittest\n", "import unittest\n\n\nclass Totals: ...\n"),
    changed("export", "shop/export.py", None, EXPORT),
    changed("docs", "README.md", "# Shop\n", "# Shop\n\nMoney is rounded.\n", standing=FileState.CHANGED),
)


@dataclass
class FakeReview:
    """A stand-in for a PlanReview."""

    changes: Sequence[ChangedFile] = SHOP
    goal: str = "Make receipts and exports right"
    plan_id: str = "4f1c22-20261128"
    commented: list[tuple[str, tuple[int, int], str]] = field(default_factory=list[tuple[str, tuple[int, int], str]])

    def since(self, change: ChangedFile) -> str:
        return f"{change.name} was changed by someone else since step {change.step_id!r} changed it"

    def comment(self, change: ChangedFile, lines: tuple[int, int], text: str) -> ReviewComment:
        self.commented.append((change.name, lines, text))
        return ReviewComment(file=change.name, first=lines[0], last=lines[1], text=text)

    @property
    def as_review(self) -> PlanReview:
        """The same object, typed as a PlanReview."""
        return cast("PlanReview", self)
