"""Measures of the source stay within bounds. ``scripts/measure-tree --names`` lists what is counted."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tests.architecture.project import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "measure-tree"))
measure = cast("Callable[[Path], tuple[dict[str, int], dict[str, list[str]]]]", SCRIPT["measure"])

MOST = {
    "code lines": 74_588,
    "modules in import circles": 0,
    "imports of our own in functions": 109,
    "imports of others in functions": 83,
    "modules with a single importer": 87,
    "small modules with a single importer": 3,
    "modules with over 20 imports": 13,
    "widest module, imports": 32,
    "reach-ins": 97,
    "doubled class names": 0,
    "lines over 120 columns": 0,
    "protocols": 32,
    "step types": 26,
    "decision types": 6,
}


def test_the_measures_of_the_tree_are_within_their_bounds() -> None:
    figures, lists = measure(ROOT)

    beyond = {name: (figures[name], lists.get(name, [])) for name in MOST if figures[name] > MOST[name]}
    assert beyond == {}


def test_what_is_counted_is_found(tmp_path: Path) -> None:
    (tmp_path / "vibe").mkdir()
    (tmp_path / "vibe" / "__init__.py").write_text('"""A package."""\n')
    (tmp_path / "vibe" / "one.py").write_text(
        '"""One."""\nfrom vibe import two\n\n\nclass Same:  # said\n    """Doc."""\n\n    x = two._hidden\n'
    )
    (tmp_path / "vibe" / "two.py").write_text(
        f"class Same:\n    def f(self):\n        import json, mcp, vibe.one\n        return self._a.b.c\n{'#' * 121}\n"
    )
    (tmp_path / "vibe" / "three.py").write_text('class Three:\n    place = import_module(f"vibe.{NAME}")\n')

    figures, lists = measure(tmp_path)

    assert figures["code lines"] == 9
    assert lists["modules in import circles"] == ["vibe.one", "vibe.two"]
    assert lists["imports of our own in functions"] == ["vibe.two: vibe.one"]
    assert lists["imports of others in functions"] == ["vibe.two: mcp"]
    assert lists["small modules with a single importer"] == ["vibe.one", "vibe.two"]
    assert lists["reach-ins"] == ["vibe.one: two._hidden", "vibe.two: self._a.b.c"]
    assert lists["doubled class names"] == ["Same"]
    assert lists["lines over 120 columns"] == ["vibe.two: 5"]
