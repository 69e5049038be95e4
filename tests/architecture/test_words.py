"""Docstrings begin with an imperative or a noun: "Return the open decisions", not "What there is to decide"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.project import ROOT, shown, source_files

PLAIN = (
    "ipc",
    "planner/plan",
    "planner/report",
    "planner/reuse",
    "planner/store",
    "subagents",
    "vibe/app",
    "vibe/cli",
    "vibe/core/agents",
    "vibe/core/config",
    "vibe/core/hooks",
    "vibe/core/instructions",
    "vibe/core/llm",
    "vibe/core/middleware",
    "vibe/core/session",
    "vibe/core/skills",
    "vibe/system",
)
"""Folders in which this also holds for the strings under constants and fields."""
FOR_MODELS = "vibe/core/tools/builtins"
"""Docstrings in this folder are read by models, as part of the tools' schemas."""
INDIRECT = re.compile(r"(?:What|Whether|Who|Whom|Whose|How|Where|Why|When)\b")


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module and the strings under its names, each with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                yield line, text
            case _:
                pass


@pytest.mark.parametrize("folder", PLAIN)
def test_no_docstring_begins_with_an_indirect_question(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    found = [
        f"{shown(path)}:{line}: {text.splitlines()[0]}"
        for path in files
        for line, text in docstrings(path)
        if INDIRECT.match(text)
    ]

    assert files
    assert found == []


def test_no_module_class_or_function_says_what_it_is_by_an_indirect_question() -> None:
    found: list[str] = []
    for path in (path for path in source_files() if not shown(path).startswith(FOR_MODELS)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                found += [f"{shown(path)}: {text.splitlines()[0]}"] if INDIRECT.match(text) else []

    assert found == []


def test_every_kind_of_docstring_is_looked_at(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""What it is."""\n\nLIMIT = 1\n"""How much."""\n\n\nclass A:\n    """Who it is."""\n\n    x: int\n    """Where."""\n'
        '\n    def f(self):\n        """Whether it is."""\n        return "Why"\n\n    async def g(self):\n        """Wholly else."""\n'
    )

    found = [text for _, text in docstrings(module) if INDIRECT.match(text)]

    assert sorted(found) == ["How much.", "What it is.", "Where.", "Whether it is.", "Who it is."]


def test_did_you_mean_is_worded_in_one_place() -> None:
    asking = [shown(path) for path in source_files() if "did you mean {" in path.read_text(encoding="utf-8")]

    assert asking == ["vibe/system/errors.py"]


ORPHAN = re.compile(r"""["']\n *[fr]?(["'])[^"'\n]{0,20}(?<!\\n)\1\n *[fr]?["']""")
"""A fragment of a text on a line of its own, followed by another piece of the same text."""


def test_no_text_has_a_fragment_on_a_line_of_its_own() -> None:
    sources = ((shown(path), path.read_text(encoding="utf-8")) for path in source_files())
    found = [f"{name}: {match[0]}" for name, text in sources for match in ORPHAN.finditer(text)]

    assert found == []
    assert ORPHAN.search('    "a long line "\n    f"that "\n    "goes on"')
