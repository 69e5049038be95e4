"""A table and its patches: whoever missed some has the same rows in the end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.dashboard.pages import FakePage, shown
from vibe.dashboard import table as module
from vibe.dashboard.table import Patch, RowTable

KEYS = ("a", "__proto__", "x/y", "constructor")
LONG = "a text that is long enough to be streamed, "


def made(random: Random) -> dict[str, Any] | None:
    if random.random() < 0.25:
        return None
    row: dict[str, Any] = {"n": random.randrange(3)}
    if random.random() < 0.7:
        row["text"] = LONG + "more " * random.randrange(4)
    if random.random() < 0.5:
        row["doing"] = random.choice(["reads", "writes"])
    return row


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_whoever_missed_what_has_the_same_rows(seed: int) -> None:
    random, table = Random(seed), RowTable("run")
    pages = [(FakePage(), 0) for _ in range(4)]  # each with the last revision it received
    for revision in range(1, 30):
        for _ in range(random.randrange(4)):
            table.put(random.choice(KEYS), made(random))
        patch = table.commit(revision)
        for number, (page, heard) in enumerate(pages):
            if heard == revision - 1 and heard and random.random() < 0.7:  # it listens
                page.take(patch)
                pages[number] = page, revision
            elif random.random() < 0.5:  # it comes back
                page.take(table.since(heard))
                pages[number] = page, revision
            if pages[number][1] == revision:
                assert page.tables.get("run", {}) == shown(table.rows)


def test_a_row_that_does_not_change_says_nothing() -> None:
    table = RowTable("run")
    table.put("a", {"n": 1})
    assert table.commit(1) == Patch(table="run", set={"a": {"n": 1}})
    table.put("a", {"n": 1})
    assert table.commit(2) is None
    table.put("a", None)
    table.put("a", {"n": 1})
    assert table.commit(3) is None
    assert table.since(1) == Patch(table="run", set={"a": {"n": 1}})


def test_a_field_back_at_its_default_is_told() -> None:
    table = RowTable("run")
    table.put("a", {"n": 1, "doing": "reads"})
    table.commit(1)
    table.put("a", {"n": 1})
    assert table.commit(2) == Patch(table="run", set={"a": {"doing": None}})


def test_of_text_that_grows_only_the_rest_is_told() -> None:
    table = RowTable("step")
    table.put("entry:a:1", {"n": 1, "text": LONG})
    table.commit(1)
    table.put("entry:a:1", {"n": 1, "text": LONG + "and more"})
    assert table.commit(2) == Patch(table="step", append={"entry:a:1": "and more"})


def test_who_missed_removals_that_are_forgotten_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GONE", 2)
    table = RowTable("run")
    for number in range(4):
        table.put(str(number), {"n": number})
    table.commit(1)
    for number in range(4):
        table.put(str(number), None)
        table.commit(2 + number)
    assert table.since(1) == Patch(table="run", whole=True)
    assert table.since(3) == Patch(table="run", gone=["2", "3"])
