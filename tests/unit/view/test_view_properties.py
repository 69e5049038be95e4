"""The view equals what was announced, however it was received: live, replayed, late, twice or out of order."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from ipc.codec import decode_event, encode_event
from ipc.events import Event
from tests.fakes.plain_view import look, plain
from tests.fakes.stories import mixed, numbered, story, strays
from vibe.view import agent_view
from vibe.view.agent_view import Key
from vibe.view.view import View, apply

SEEDS = st.integers(0, 2**32)


def fold(events: Iterable[Event]) -> View:
    view = View()
    for event in events:
        apply(view, event)
    return view


def all_of(view: View) -> tuple[dict[str, Any], dict[str, object], int]:
    """Return everything in a view that a reader can see, including the plans' own states."""
    return plain(view), {name: plan.state for name, plan in view.plans.items()}, view.kept.count


def announced(seed: int, others: int) -> tuple[list[Event], Random]:
    random = Random(seed)
    return numbered(mixed(story(random), strays(random, others), random)), random


def journalled(events: Iterable[Event]) -> list[Event]:
    decoded = [decode_event(encode_event(event)) for event in events]
    return [event for event in decoded if event is not None]


@settings(max_examples=100)
@given(seed=SEEDS, others=st.integers(0, 60))
def test_replayed_and_live_are_the_same_view(seed: int, others: int) -> None:
    events, random = announced(seed, others)
    live = all_of(fold(events))
    replay = journalled(events)
    assert all_of(fold(replay)) == live

    cut = random.randrange(len(events))  # a late joiner: journal, then overlapping live events
    assert all_of(fold([*replay[:cut], *events[random.randrange(cut + 1) :]])) == live

    heard: list[Event] = []
    for number, event in enumerate(events):  # repeated, and late
        heard += [event, *(events[random.randrange(number + 1)] for _ in range(random.randrange(3)))]
    assert all_of(fold(heard)) == live
    assert msgspec.json.encode(live[0])


@settings(max_examples=10)
@given(seed=SEEDS, others=st.integers(0, 30))
def test_nothing_changes_that_is_not_under_a_key(seed: int, others: int) -> None:
    events, _ = announced(seed, others)
    view = View()
    before = pieces(view)
    for event in events:
        keys = apply(view, event)
        after = pieces(view)
        changed = {key for key in before | after if before.get(key) != after.get(key)}
        assert not {key for key in changed if not any(key[: len(each)] == each for each in keys)}, (keys, event)
        for key in keys:
            if key in after or key in before:
                assert after.get(key) == look(view, key), (key, event)
        before = after


def pieces(view: View) -> dict[Key, Any]:
    """Return a plain view in pieces, each at its key and without parts that have keys of their own."""
    found: dict[Key, Any] = {}
    whole = plain(view)
    for name, value in whole.items():
        if name in {"runs", "requests"}:
            found |= {(name, each): part for each, part in value.items()}
        elif name in {"plans", "agents"}:
            inside = "steps" if name == "plans" else "entries"
            for each, part in value.items():
                found |= {(name, each, inside, one): piece for one, piece in part.pop(inside).items()}
                found[name, each] = part
        else:
            found[(name,)] = value
    return found


@settings(max_examples=40)
@given(seed=SEEDS, others=st.integers(0, 60))
def test_transcripts_stay_within_bounds_and_say_where_the_rest_is(seed: int, others: int) -> None:
    events, _ = announced(seed, others)
    view = fold(events)
    for agent in view.agents.values():
        entries = list(agent.entries.values())
        assert [int(number) for number in agent.entries] == [entry.number for entry in entries]
        assert agent.transcript.size == sum(entry.size for entry in entries)
        assert len(entries) <= agent_view.MOST_ENTRIES
    assert view.kept.count == sum(agent.transcript.size for agent in view.agents.values())
