"""Rules about the tree: packages, sizes, public names, and addresses that must not be in it."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.project import PACKAGES, ROOT, project_files, shown, source_files

ADDRESSES = re.compile(
    rb"py[p]i\.org|python[h]osted|registry\.np[m]js|deb\.deb[i]an|(?<!\w)/(wo[r]k/m|ro[o]t/|fa[r]m/)"
)
TREE_LINE = re.compile(r"^(?P<indent> *)(?P<name>[\w.-]+(?:/|\.py))(?: |$)")


def package_names() -> list[str]:
    folders = (path.parent for path in source_files() if path.name == "__init__.py")
    return [shown(folder).replace("/", ".") for folder in folders]


def drawn_paths() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = "\n".join(
        re.findall(r"^```\n(.*?)^```$", text.partition("## Tree")[2].partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    )
    paths: list[str] = []
    folders: list[str] = []
    for match in filter(None, map(TREE_LINE.match, tree.splitlines())):
        del folders[len(match["indent"]) // 2 :]
        paths.append("/".join([*folders, match["name"].rstrip("/")]))
        if match["name"].endswith("/"):
            folders.append(match["name"].rstrip("/"))
    return paths


def test_every_folder_with_modules_is_a_package() -> None:
    ours = (path for path in project_files() if shown(path).partition("/")[0] in {*PACKAGES, "tests"})
    folders = {path.parent for path in ours if path.suffix == ".py"}

    assert len(folders) > len(PACKAGES)
    assert [shown(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("name", package_names())
def test_a_package_lists_what_it_offers(name: str) -> None:
    package = importlib.import_module(name)
    ours = {
        attribute
        for attribute, value in vars(package).items()
        if not attribute.startswith("_") and str(getattr(value, "__module__", "")).partition(".")[0] in PACKAGES
    }
    listed: list[str] = list(getattr(package, "__all__", ()))

    assert listed == sorted(listed)
    assert ours - set(listed) == set()
    assert [attribute for attribute in listed if not hasattr(package, attribute)] == []


def test_no_file_names_this_machine_or_a_registry() -> None:
    found = {shown(path): hit.group().decode() for path in project_files() if (hit := search(path)) is not None}

    assert found == {}


def search(path: Path) -> re.Match[bytes] | None:
    return ADDRESSES.search(path.read_bytes())


def test_the_documented_tree_is_the_tree() -> None:
    drawn = drawn_paths()

    modules = {shown(path.parent if path.name == "__init__.py" else path) for path in source_files()}
    assert [path for path in drawn if not (ROOT / path).exists()] == []
    assert modules - set(drawn) == set()


def test_what_ruff_has_loaded_late_of_ours_exists() -> None:
    tidy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    late = tidy["flake8-tidy-imports"]["banned-module-level-imports"]
    ours = [name for name in late if name.partition(".")[0] in PACKAGES]
    places = {name: ROOT.joinpath(*name.split(".")) for name in ours}

    assert ours
    assert [name for name, place in places.items() if not (place.is_dir() or place.with_suffix(".py").is_file())] == []


def test_the_walk_through_the_modules_is_short_and_leads_past_ones_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = text.partition("\n## One walk\n")[2].partition("\n## ")[0]
    modules = re.findall(r"^\d+\. `([\w/]+\.py)`:", walk, re.MULTILINE)

    assert 20 <= len(modules) <= 25
    assert [path for path in modules if not (ROOT / path).is_file()] == []


def test_each_question_of_where_something_is_leads_to_a_file() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    asked = text.partition("\n## Where is …?\n")[2].partition("\n## ")[0]
    answers = re.findall(r"^\| .+\? \| `([\w/]+\.py)` \|$", asked, re.MULTILINE)

    assert len(answers) >= 24
    assert [path for path in answers if not (ROOT / path).is_file()] == []


def test_the_table_of_decisions_lists_each_of_them() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d+)\]\(adr/([\w-]+\.md)\) \|", text, re.MULTILINE)

    assert [name for _, name in listed] == [path.name for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]
    assert all(name.startswith(f"{number:0>4}-") for number, name in listed)
