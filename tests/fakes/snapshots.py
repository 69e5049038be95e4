"""Screenshots as committed SVG files: made small and reproducible, and compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import unescape
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from rich.cells import cell_len
from textual._compositor import LayoutUpdate
from textual.app import App

ACCEPT = "--accept-snapshots"
FONTS = "'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
OF_NO_USE = (
    re.compile(r"terminal-\d+-"),
    re.compile(r"@font-face \{.*?\}\s*", re.DOTALL),
    re.compile(r'<clipPath id="line-\d+">.*?</clipPath>\s*', re.DOTALL),
    re.compile(r' clip-path="url\(#line-\d+\)"'),
    re.compile(r"font-variant-east-asian: full-width;\s*"),
)
"""Removed from screenshots: ids that differ each time, rules that fetch fonts, and clipping of lines that always fit.
"""
CELLS = re.compile(
    r'<rect fill="(\S+)" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" shape-rendering="crispEdges"/>'
)
WINDOW = re.compile(r'<clipPath id="clip-terminal">\s*<rect x="0" y="0" width="(\S+)" height="(\S+)"')
CELL_HEIGHT = 24.4
BLANKS = "\N{NO-BREAK SPACE}"
WORDS = re.compile(r'<text class="(\w+)" x="(\S+)" y="(\S+)" textLength="\S+">([^<]*)</text>')
CELL_WIDTH = 12.2
SCREEN = '<g transform="translate(9, 41)" clip-path="url(#clip-terminal)">\n'
LOOKS = re.compile(r"\.(r\d+) (\{[^}]*\})\n")
MATRIX = '<g class="matrix">'
CLASSES = re.compile(r'class="(r\d+)"')


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Compares screenshots with the committed ones, or replaces those if ``accept``. Mismatches go to ``rejected``."""

    rejected: Path
    accept: bool

    def check(self, picture: str, known: Path) -> None:
        """Raise AssertionError if a screenshot differs from the known file, or with ``accept`` write that file."""
        if self.accept:
            known.parent.mkdir(parents=True, exist_ok=True)
            known.write_text(picture, encoding="utf-8")
            return
        before = known.read_text(encoding="utf-8") if known.exists() else ""
        if picture == before:
            return
        new = self.rejected / known.name
        new.write_text(picture, encoding="utf-8")
        was, now = ([*text.splitlines(), "(its end)"] for text in (before, picture))
        at = next(number for number, (a, b) in enumerate(zip(was, now, strict=False)) if a != b)
        raise AssertionError(
            f"the screen is no longer that of {known}: see {new}. They differ first in line {at + 1}:\n"
            f"- {was[at]}\n+ {now[at]}\nIf it is as it should be, run the test with {ACCEPT} and commit the picture."
        )


def picture_of(app: App[None]) -> str:
    """Return the screen as SVG, without parts that change from run to run or are useless in a file."""
    drawn = app.export_screenshot(title="vibe", simplify=True)
    for pattern in OF_NO_USE:
        drawn = pattern.sub("", drawn)
    drawn = drawn.replace("Fira Code, monospace", FONTS).replace("&#160;", BLANKS)
    cells = list(CELLS.finditer(drawn))
    words = "\n".join(_words(drawn))
    whole = drawn[drawn.index(MATRIX) :]  # there are no cells where everything has the terminal's own background
    head = drawn.partition(cells[0][0] if cells else MATRIX)[0]
    frame = whole.partition("<text")[0]
    lines = [
        *head.splitlines(),
        *_backgrounds(cells, _window(drawn)),
        *frame.splitlines(),
        words,
        "</g>",
        "</g>",
        "</svg>",
    ]
    return "".join(f"{line.strip(' ')}\n" for line in lines if line.strip(" "))


def moving(pictures: Sequence[tuple[str, float]]) -> str:
    """Return screenshots of one size as a single SVG that plays them in a loop, each for its number of seconds.

    Viewers who prefer reduced motion see the last one.
    """
    whole = sum(seconds for _, seconds in pictures)
    looks: dict[str, str] = {}
    frames: list[str] = []
    rules = [f".frame {{ visibility: hidden; animation: {whole}s step-end infinite }}"]
    begun = 0.0
    for number, (picture, seconds) in enumerate(pictures):
        _, opened, rest = picture.partition(SCREEN)
        names = {name: looks.setdefault(look, f"m{len(looks)}") for name, look in LOOKS.findall(picture)}
        drawn = CLASSES.sub(partial(_renamed, names), rest[: rest.rindex("</g>\n</svg>")])
        frames.append(f'<g class="frame" id="f{number}">\n{drawn}</g>\n')
        start, end = (f"{100 * moment / whole:.2f}%" for moment in (begun, begun + seconds))
        before = "" if number == 0 else "0% { visibility: hidden } "
        seen = f"{before}{start} {{ visibility: visible }} {end} {{ visibility: hidden }}"
        rules.append(f"#f{number} {{ animation-name: k{number} }} @keyframes k{number} {{ {seen} }}")
        begun += seconds
    rules += ["@media (prefers-reduced-motion: reduce) { .frame { animation: none }"]
    rules += [f"#f{len(pictures) - 1} {{ visibility: visible }} }}"]
    head, opened, _ = LOOKS.sub("", pictures[-1][0]).partition(SCREEN)
    styles = "".join(f"{rule}\n" for rule in [*(f".{name} {look}" for look, name in looks.items()), *rules])
    return f"{head.replace('</style>', styles + '</style>')}{opened}{''.join(frames)}</g>\n</svg>\n"


def _renamed(names: Mapping[str, str], found: re.Match[str]) -> str:
    return f'class="{names[found[1]]}"'


def rows_of(app: App[None]) -> list[str]:
    """Return the text of each row of the screen, without colours."""
    behind = cast("Any", app)._background_screens
    drawn: Any = cast("Any", app).screen._compositor.render_update(full=True, screen_stack=behind)
    assert isinstance(drawn, LayoutUpdate)
    return ["".join(strip.text for strip in row) for row in drawn.strips]


def _window(drawn: str) -> float:
    """Return the length of all rows of the window, one behind the other."""
    found = WINDOW.search(drawn)
    assert found is not None
    return float(found[1]) * float(found[2]) / CELL_HEIGHT


def _backgrounds(cells: Iterable[re.Match[str]], window: float) -> Iterator[str]:
    """Yield one rectangle for the most common background, and one for each run of cells of another colour.

    If hardly any cell has a background, as without colours, the rest is left to the terminal's own.
    """
    runs = [
        (fill, y, min(xs), max(ends))
        for (fill, y), run in groupby(cells, lambda cell: (cell[1], float(cell[3])))
        for xs, ends in [zip(*((float(cell[2]), float(cell[2]) + float(cell[4])) for cell in run), strict=True)]
    ]
    sizes = Counter[str]()
    for fill, _, start, end in runs:
        sizes[fill] += round(end - start)
    ground = next((each for each, size in sizes.most_common(1) if size > window / 10), "")
    if ground:
        yield f'<rect fill="{ground}" width="100%" height="100%"/>'
    for fill, y, start, end in runs:
        if fill != ground:
            yield (
                f'<rect fill="{fill}" x="{start:.1f}" y="{y:.1f}" width="{end - start:.1f}" height="24.6" '
                'shape-rendering="crispEdges"/>'
            )


def _words(drawn: str) -> Iterator[str]:
    """Yield the text elements without the blanks around them."""
    for look, x, y, text in WORDS.findall(drawn):
        words = text.strip(BLANKS)
        if not words.strip():
            continue
        start = float(x) + CELL_WIDTH * (len(text) - len(text.lstrip(BLANKS)))
        length = CELL_WIDTH * cell_len(unescape(words))
        yield f'<text class="{look}" x="{start:.1f}" y="{float(y):.1f}" textLength="{length:.1f}">{words}</text>'
