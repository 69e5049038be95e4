"""The steps that could run now, best first, minding who is writing where.

Steps with the same claim wait in one group, of which only the best is looked at; those that claim nothing are one, too.
A group whose claim meets something being written is parked under the glob it met, and looked at again only when no step
writes there any more; so a thousand steps after one directory cost no more than a thousand steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush, heapreplace

from msgspec import Struct, field

from planner.plan.write_claims import Claim, Glob, claims_overlap, globs_overlap

_UNPARKED: Glob = ()
MOST_PARKED = 64
"""Of so many steps it is remembered that they wait for others' files."""


class _Group(Struct):
    ranks: list[int] = field(default_factory=list[int])
    place: Glob = _UNPARKED


class ReadyQueue:
    """Hands out the best step that may start now. ``ordered`` ranks all steps, best first.

    Groups of steps by claim lie in buckets by the glob that keeps them waiting. ``_open`` is a heap of the buckets that
    no step holds, by the rank of their best group; ``_listed`` says which of its entries counts. Entries of both kinds
    of heap may be out of date; they are dropped when they come up.
    """

    def __init__(self, ordered: Sequence[str], claims: Mapping[str, Claim]) -> None:
        self._ids = tuple(ordered)
        self.ranks: Mapping[str, int] = {step_id: rank for rank, step_id in enumerate(self._ids)}
        """Each step's place in the order, 0 first."""
        self._claims = claims
        self._groups: dict[Claim, _Group] = {}
        self._buckets: dict[Glob, list[tuple[int, Claim]]] = {}
        self._open: list[tuple[int, Glob]] = []
        self._parked: deque[int] = deque(maxlen=MOST_PARKED)
        """The latest of the steps that were parked since that was last asked."""
        self._listed: dict[Glob, int] = {}
        self._held: dict[Glob, int] = {}

    def push(self, step_id: str) -> None:
        """Let a step wait for its start."""
        rank, claim = self.ranks[step_id], self._claims[step_id]
        group = self._groups.setdefault(claim, _Group())
        heappush(group.ranks, rank)
        if group.ranks[0] == rank:
            self._enter(rank, claim, group.place)

    def best(self) -> str | None:
        """The best step that conflicts with no running one; it stays queued. None: all do."""
        while self._open:
            rank, place = self._open[0]
            if self._listed.get(place) != rank:
                heappop(self._open)
                continue
            bucket = self._fresh_bucket(place)
            if place in self._held or not bucket:
                heappop(self._open)
                del self._listed[place]
                continue
            if bucket[0][0] != rank:
                self._listed[place] = bucket[0][0]
                heapreplace(self._open, (bucket[0][0], place))
                continue
            claim = bucket[0][1]
            obstacle = self._obstacle(claim)
            if obstacle is None:
                return self._ids[rank]
            heappop(bucket)
            self._parked.append(rank)
            self._groups[claim].place = obstacle
            self._enter(rank, claim, obstacle)
        return None

    def take(self, step_id: str) -> None:
        """Start the step that ``best`` named; it holds its claim until ``release``."""
        claim = self._claims[step_id]
        group = self._groups[claim]
        heappop(group.ranks)
        self.hold(step_id)
        if group.ranks:
            group.place = claim[0] if claim else _UNPARKED
            self._enter(group.ranks[0], claim, group.place)
        else:
            del self._groups[claim]

    def hold(self, step_id: str) -> None:
        """A step runs that this queue or another handed out."""
        for glob in self._claims[step_id]:
            self._held[glob] = self._held.get(glob, 0) + 1

    def release(self, step_id: str) -> None:
        """A step that was started runs no longer."""
        for glob in self._claims[step_id]:
            self._held[glob] -= 1
            if not self._held[glob]:
                del self._held[glob]
                bucket = self._fresh_bucket(glob)
                if bucket:
                    self._list(glob, bucket[0][0])

    def parked(self) -> list[str]:
        """The steps that were found to meet a running one since this was last asked; not all, where they are many."""
        found = list(dict.fromkeys(self._ids[rank] for rank in self._parked))
        self._parked.clear()
        return found

    def met_by(self, step_id: str, running: Iterable[str]) -> tuple[str, ...]:
        """Return which of the running steps write where this one would."""
        claim = self._claims[step_id]
        return tuple(other for other in running if claims_overlap(claim, self._claims[other]))

    def _enter(self, rank: int, claim: Claim, place: Glob) -> None:
        heappush(self._buckets.setdefault(place, []), (rank, claim))
        if place not in self._held:
            self._list(place, rank)

    def _list(self, place: Glob, rank: int) -> None:
        if rank < self._listed.get(place, rank + 1):
            self._listed[place] = rank
            heappush(self._open, (rank, place))

    def _fresh_bucket(self, place: Glob) -> list[tuple[int, Claim]]:
        """The bucket, its best entry up to date."""
        bucket = self._buckets.get(place, [])
        while bucket:
            rank, claim = bucket[0]
            group = self._groups.get(claim)
            if group is not None and group.place == place and group.ranks[0] == rank:
                break
            heappop(bucket)
        return bucket

    def _obstacle(self, claim: Claim) -> Glob | None:
        for glob in claim:
            if glob in self._held:
                return glob
        for held in self._held:
            if any(globs_overlap(glob, held) for glob in claim):
                return held
        return None
