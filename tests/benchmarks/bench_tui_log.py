"""The chat log in process: opening, paging, appending, resizing, and keys beside a stream.

``python -m tests.benchmarks.bench_tui_log [--entries N] [--markdown] [--json]``. With ``--markdown``, text is streamed
into Textual's own Markdown widget as well. The figures of the widget that was tried before are printed beside ours (in
a terminal, timed from outside).
"""

from __future__ import annotations

import argparse
import asyncio  # noqa: TID251  Textual runs on it
import gc
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input, Markdown

from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry

SIZE = (120, 36)
SECONDS = 4.0
TOKENS_S = 200
SEED = 7
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "omega"]
TRIED = {
    "open": "450 (from exec)",
    "page up": "9 / 13 / 24",
    "append": "5 / 6 / 22",
    "resize": "68 / 83 / 132",
    "fold or open": "7 / 8 / 17",
    "find in all": "4",
    "key taken at rest": "3 / 13 / 15",
    "key taken in a stream": "2.5 / 10 / 40",
    "key taken, Textual's MarkdownStream": "26 / 76 / 236",
    "MB resident": "71",
}


class LogBench(App[None]):
    """An input below the log. ``echoed`` is set when a key was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.chat = ChatLog()
        self.echoed = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield self.chat
        yield Input(select_on_focus=False)

    def on_input_changed(self) -> None:
        self.echoed.set()


def phrase(count: int) -> str:
    return " ".join(random.choice(WORDS) for _ in range(count))


def entry(kind: float) -> LogEntry:
    """Return an entry: of ten, six are text, two have code, and two are calls."""
    if kind < 0.6:
        return LogEntry("answer", f"{phrase(40)}\n\n{phrase(20)}\n\n- {phrase(5)}\n- **{phrase(3)}** `x`")
    if kind < 0.8:
        code = "".join(f"def f{number}(x):\n    return x + {number}  # {phrase(2)}\n" for number in range(8))
        return LogEntry("answer", f"{phrase(20)}\n\n```python\n{code}```\n\n{phrase(10)}")
    return LogEntry("call", "\n".join(phrase(8) for _ in range(12)), title=f"Read {phrase(1)}", status="ok")


async def timed(pilot: Pilot[None], times: int, act: Callable[[], object]) -> list[float]:
    """Return the milliseconds of an action until it is painted."""
    found: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        await pilot.pause(0)
        found.append((time.perf_counter() - start) * 1000)
    return found


async def echoes(app: LogBench, seconds: float) -> list[float]:
    """Return the milliseconds from a key to its arrival in the input, at ten keys per second, without its painting."""
    found: list[float] = []
    field = app.query_one(Input)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        app.echoed.clear()
        start = time.perf_counter()
        field.post_message(events.Key("x", "x"))
        await asyncio.wait_for(app.echoed.wait(), 10)
        found.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.1)
    return found


async def stream(text: str, take: Callable[[str], object], seconds: float) -> None:
    """Stream tokens of five characters, each at its time."""
    start = time.perf_counter()
    for number in range(int(seconds * TOKENS_S)):
        take(text[5 * number : 5 * number + 5])
        await asyncio.sleep(max(0.0, start + number / TOKENS_S - time.perf_counter()))


async def beside_a_stream(app: LogBench, entries: list[LogEntry], *, with_markdown: bool) -> dict[str, Any]:
    """Measure keys at rest, beside a stream into the log, and beside one into Textual's own widget."""
    figures: dict[str, Any] = {}
    chat = app.chat
    app.query_one(Input).focus()
    figures["key taken at rest"] = await echoes(app, 2)
    text = "\n\n".join(each.text for each in entries[:400] if each.kind == "answer")
    answer = LogEntry("answer", status="streaming")
    chat.append(answer)

    def take(piece: str) -> None:
        answer.add_text(piece)
        chat.changed(answer)

    cpu = time.process_time()
    found, _ = await asyncio.gather(echoes(app, SECONDS), stream(text, take, SECONDS))
    figures["key taken in a stream"] = found
    figures["CPU in a stream, %"] = (time.process_time() - cpu) / SECONDS * 100
    if with_markdown:
        widget = Markdown()
        await app.mount(widget, before=chat)
        flow = Markdown.get_stream(widget)
        feed = asyncio.gather(echoes(app, SECONDS), _fed(text, flow.write, SECONDS))
        figures["key taken, Textual's MarkdownStream"], _ = await feed
        await flow.stop()
    return figures


async def bench(count: int, *, with_markdown: bool) -> dict[str, Any]:
    """Return all figures."""
    random.seed(SEED)
    figures: dict[str, Any] = {}
    entries = [entry(random.random()) for _ in range(count)]
    app = LogBench()
    async with app.run_test(size=SIZE) as pilot:
        chat = app.chat
        start = time.perf_counter()
        chat.extend(entries)
        await pilot.pause(0)
        figures["open"] = [(time.perf_counter() - start) * 1000]
        gc.collect()
        gc.freeze()
        gc.set_threshold(5000, 20, 100)
        figures["page up"] = await timed(pilot, 40, partial(chat.action_move, 1, -1))
        chat.to_end()
        figures["append"] = await timed(pilot, 40, lambda: chat.append(entry(random.random())))
        calls = [each for each in chat.entries if each.kind == "call"]
        figures["fold or open"] = await timed(pilot, 20, lambda: chat.toggle(calls[-1]))
        figures["find in all"] = await timed(pilot, 5, lambda: chat.find("nowhere in it"))
        widths: list[float] = []
        for width in (100, 80, 140, 120):
            start = time.perf_counter()
            await pilot.resize_terminal(width, SIZE[1])
            widths.append((time.perf_counter() - start) * 1000)
        figures["resize"] = widths
        figures |= await beside_a_stream(app, entries, with_markdown=with_markdown)
    figures["MB resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


async def _fed(text: str, write: Callable[[str], Any], seconds: float) -> None:
    start = time.perf_counter()
    for number in range(int(seconds * TOKENS_S)):
        await write(text[5 * number : 5 * number + 5])
        await asyncio.sleep(max(0.0, start + number / TOKENS_S - time.perf_counter()))


def shown(figure: list[float] | float) -> str:
    """Return the least value, the median and the 99th percentile, or a single figure by itself."""
    if not isinstance(figure, list):
        return f"{figure:.0f}"
    if len(figure) == 1:
        return f"{figure[0]:.0f}"
    ranked = sorted(figure)
    return f"{ranked[0]:.1f} / {statistics.median(ranked):.1f} / {ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))]:.1f}"


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    figures = asyncio.run(bench(options.entries, with_markdown=options.markdown))
    if options.json:
        print(json.dumps(figures))
        return 0
    print(f"{options.entries} entries, ms as min / median / p99")
    print(f"{'':36}{'this log':>24}{'tried before':>20}")
    for name, figure in figures.items():
        print(f"{name:36}{shown(figure):>24}{TRIED.get(name, ''):>20}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
