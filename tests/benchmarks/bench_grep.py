"""The time of grep, read_file and search_replace in a tree of 100 000 files, beside ripgrep itself in the same run.

``python -m tests.benchmarks.bench_grep [--json] [--rounds N] [--files N]`` exits with 1 if the best of the rounds is
over its bound: 1.2 times ripgrep plus 10 ms. ``rg`` is asked for the same answer: sorted by path, hidden files too. Its
time when it may answer in any order, with one thread per processor, is shown beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from tests.unit.core.tools.builtins.calling import PATH, Caller, make
from vibe.core.tools.builtins.grep import Grep
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.system.programs import find_ripgrep

FACTOR = 1.2
SPARE_MS = 10.0
FILES_IN_A_FOLDER = 100
TEXT = "".join(f"line {number} of a file that nobody looks for\n" for number in range(8))
NEEDLES = 7
SORTED = ("--sort=path",)
TARGET = "d000/d0005/f0042.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure: the best of the rounds in ms, as that is disturbed least by other work on the machine.

    ``any_order`` is ripgrep when it need not sort.
    """

    what: str
    ours: float
    ripgrep: float
    any_order: float

    @property
    def bound(self) -> float:
        """The longest that ours may take."""
        return FACTOR * self.ripgrep + SPARE_MS

    def as_document(self) -> dict[str, Any]:
        """Return the row as it is in JSON."""
        figures = {
            "ours_ms": self.ours,
            "bound_ms": self.bound,
            "rg_ms": self.ripgrep,
            "rg_any_order_ms": self.any_order,
        }
        return {
            "what": self.what,
            **{name: round(value, 1) for name, value in figures.items()},
            "met": self.ours <= self.bound,
        }


def plant(root: Path, files: int) -> None:
    """Create the tree: folders of folders of files, with a needle in a few of them."""
    for folder in range(files // FILES_IN_A_FOLDER):
        place = root / f"d{folder // 100:03}" / f"d{folder:04}"
        place.mkdir(parents=True)
        for number in range(FILES_IN_A_FOLDER):
            rare = number == 42 and folder % max(1, files // FILES_IN_A_FOLDER // NEEDLES) == 5
            (place / f"f{number:04}.txt").write_text(TEXT + ("the needle\n" if rare else ""))


async def measure(root: Path, rounds: int) -> list[Row]:
    """Return all rows. Ours and ripgrep take turns, so that other work on the machine affects both alike."""
    caller = Caller(root=root)
    grep, read, edit = make(Grep), make(ReadFile), make(SearchReplace)
    both = [0]

    async def change() -> None:
        both[0] += 1
        old, new = ("the needle", "THE NEEDLE") if both[0] % 2 else ("THE NEEDLE", "the needle")
        block = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
        await caller.call(edit, file_path=TARGET, content=block)

    found = await caller.call(grep, pattern="the needle")
    if found.match_count < NEEDLES:
        raise SystemExit(f"grep found {found.match_count} of {NEEDLES} needles")
    await caller.call(read, path=TARGET)
    cases: list[tuple[str, Callable[[], Awaitable[Any]], Sequence[str]]] = [
        ("grep, a few matches", lambda: caller.call(grep, pattern="the needle"), ("the needle", ".")),
        ("grep, no match", lambda: caller.call(grep, pattern="not there"), ("not there", ".")),
        ("grep, one folder", lambda: caller.call(grep, pattern="needle", path="d000/d0005"), ("needle", "d000/d0005")),
        ("read_file", lambda: caller.call(read, path=TARGET), ("needle", TARGET)),
        ("search_replace", change, ("needle", TARGET)),
    ]
    return [await _row(what, ours, words, root, rounds) for what, ours, words in cases]


async def _row(what: str, ours: Callable[[], Awaitable[Any]], words: Sequence[str], root: Path, rounds: int) -> Row:
    times: dict[str, list[float]] = {"ours": [], "sorted": [], "any": []}
    for _ in range(rounds):
        started = time.perf_counter()
        await ours()
        times["ours"].append(time.perf_counter() - started)
        times["sorted"].append(await _ripgrep(SORTED, words, root))
        times["any"].append(await _ripgrep((), words, root))
    ours_ms, sorted_ms, any_ms = (min(times[name]) * 1e3 for name in ("ours", "sorted", "any"))
    return Row(what=what, ours=ours_ms, ripgrep=sorted_ms, any_order=any_ms)


async def _ripgrep(flags: Sequence[str], words: Sequence[str], root: Path) -> float:
    rg = find_ripgrep({"PATH": PATH})
    if rg is None:
        raise SystemExit("there is no ripgrep to compare with")
    command = [rg, "--no-config", "--line-number", "--hidden", *flags, "--", *words]
    started = time.perf_counter()
    await anyio.run_process(command, cwd=root, check=False, stdin=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        plant(root, args.files)
        rows = [row.as_document() for row in anyio.run(measure, root, args.rounds)]
    if args.json:
        print(json.dumps({"files": args.files, "rows": rows}))
    else:
        print(f"{'':22}{'ours':>10}{'bound':>10}{'rg':>10}{'any order':>12}   ms, best of {args.rounds}")
        for row in rows:
            figures = (row["ours_ms"], row["bound_ms"], row["rg_ms"])
            print(f"{row['what']:22}{''.join(f'{figure:10.1f}' for figure in figures)}{row['rg_any_order_ms']:12.1f}")
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
