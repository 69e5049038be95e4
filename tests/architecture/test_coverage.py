"""Each package has tests: in the folder of the same name, or in a file of ``tests/e2e`` that names the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.project import PACKAGES, ROOT, shown, source_files

TESTS = ROOT / "tests"
NAMED = re.compile(r"^Covers (``[\w.]+``(?:, ``[\w.]+``)*)\.$", re.MULTILINE)


def packages() -> set[str]:
    """Return every package that has modules."""
    folders = {path.parent for path in source_files() if path.name != "__init__.py"}
    return {shown(folder).replace("/", ".") for folder in folders}


def covered(path: Path) -> set[str]:
    """Return the packages that a test file covers."""
    kind, *folders, _ = path.relative_to(TESTS).parts
    if kind == "e2e":
        said = NAMED.search(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
        return set(re.findall(r"[\w.]+", said[1])) if said else set()
    return {".".join(folders if folders[0] in PACKAGES else ("vibe", *folders))}


def test_each_test_file_is_about_packages_that_exist_and_each_package_has_one() -> None:
    files = [path for kind in ("unit", "integration", "e2e") for path in sorted((TESTS / kind).rglob("test_*.py"))]
    about = {shown(path): covered(path) for path in files}
    known = {*packages(), *PACKAGES}

    assert [path for path, found in about.items() if not found or found - known] == []
    assert packages() - set[str]().union(*about.values()) == set()
