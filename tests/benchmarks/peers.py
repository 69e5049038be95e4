"""LangGraph and Dask on the graphs of our own measurements. Each is left out, with a note, if it is not installed.

They are in the dependency group ``bench``: ``uv run --group bench python -m tests.benchmarks.bench_plan``.
"""

from __future__ import annotations

import importlib
import importlib.util
import operator
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, TypedDict

import anyio

Graph = Sequence[Sequence[int]]
"""For each step, the earlier steps that it needs."""


class Peer(Protocol):
    """Another program that runs a graph of steps."""

    name: str

    def run(self, graph: Graph, parallel: int, seconds: Sequence[float] | None) -> float:
        """Return the seconds of a run. ``seconds`` is how long each step lasts (None: it does nothing)."""
        ...


class Count(TypedDict):
    """The state of a LangGraph run: the number of steps done."""

    done: Annotated[int, operator.add]


class LangGraph:
    """A compiled ``StateGraph``. Only ``build`` counts the time for building and compiling it."""

    name = "LangGraph"

    def __init__(self) -> None:
        self._library: Any = importlib.import_module("langgraph.graph")

    def build(self, graph: Graph, seconds: Sequence[float] | None = None) -> Any:
        """Return the compiled graph."""
        builder = self._library.StateGraph(Count)
        for number, needs in enumerate(graph):
            builder.add_node(f"s{number}", _node(None if seconds is None else seconds[number]))
            if needs:
                builder.add_edge([f"s{other}" for other in needs], f"s{number}")
            else:
                builder.add_edge(self._library.START, f"s{number}")
        return builder.compile()

    def run(self, graph: Graph, parallel: int, seconds: Sequence[float] | None) -> float:
        """Run the graph; see ``Peer``."""
        compiled = self.build(graph, seconds)

        async def timed() -> float:
            begun = time.perf_counter()
            config = {"max_concurrency": parallel, "recursion_limit": len(graph) + 10}
            ended = await compiled.ainvoke({"done": 0}, config)
            if ended["done"] != len(graph):
                raise SystemExit(f"LangGraph did {ended['done']} of {len(graph)} steps")
            return time.perf_counter() - begun

        return anyio.run(timed)


class Dask:
    """A client of a cluster in this process: one worker with as many threads as steps may run side by side."""

    name = "Dask"

    def __init__(self) -> None:
        self._library: Any = importlib.import_module("distributed")

    def run(self, graph: Graph, parallel: int, seconds: Sequence[float] | None) -> float:
        """Run the graph; see ``Peer``."""
        cluster = self._library.LocalCluster(
            n_workers=1, threads_per_worker=parallel, processes=False, dashboard_address=None, silence_logs="ERROR"
        )
        with cluster, self._library.Client(cluster) as client:
            client.submit(_step, 0.0, key="warm").result()
            begun = time.perf_counter()
            futures: list[Any] = []
            for number, needs in enumerate(graph):
                lasts = 0.0 if seconds is None else seconds[number]
                futures.append(client.submit(_step, lasts, *(futures[other] for other in needs), key=f"s{number}"))
            self._library.wait(futures)
            return time.perf_counter() - begun


PEERS: Mapping[str, type[LangGraph | Dask]] = {"langgraph": LangGraph, "distributed": Dask}


def installed() -> tuple[list[LangGraph | Dask], list[str]]:
    """Return the installed peers, and a sentence for each missing one."""
    there = {name: importlib.util.find_spec(name) is not None for name in PEERS}
    missing = [
        f"{PEERS[name].name} is not installed (group bench), so not measured" for name in PEERS if not there[name]
    ]
    return [PEERS[name]() for name in PEERS if there[name]], missing


def _node(seconds: float | None) -> Any:
    async def work(_: Count) -> dict[str, int]:
        if seconds is not None:
            await anyio.sleep(seconds)
        return {"done": 1}

    return work


def _step(seconds: float, *_: object) -> None:
    if seconds:
        time.sleep(seconds)
