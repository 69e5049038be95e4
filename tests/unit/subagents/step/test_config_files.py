from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from subagents.step.config_files import is_config_file, names_file
from subagents.step.tamper_guard import TamperGuard, only_looks, record_name
from tests.fakes.tasks import task_of
from vibe.core.tools.errors import PathError
from vibe.core.tools.workspace import Workspace

CONFIGURING = (
    "conftest.py",
    "src/deep/conftest.py",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
    ".coveragerc",
    "noxfile.py",
    "Makefile",
    "GNUmakefile",
    "web/package.json",
    "jest.config.mjs",
    "vitest.config.ts",
    ".mocharc.json",
    ".npmrc",
    "crate/build.rs",
    ".cargo/config.toml",
    "go.work",
    "CMakeLists.txt",
    "Rakefile",
)
ORDINARY = (
    "app.py",
    "weights.pth",
    "README.md",
    "my_conftest.py",
    "makefile.md",
    "config.toml",
    "package-lock.json",
    "jest.config.d/a",
)


@pytest.mark.parametrize("name", CONFIGURING)
def test_well_known_names_configure_checks_wherever_they_are(name: str) -> None:
    assert is_config_file(name)


@pytest.mark.parametrize("name", ORDINARY)
def test_other_files_configure_nothing(name: str) -> None:
    assert not is_config_file(name)


@dataclass(frozen=True, kw_only=True)
class Claim:
    glob: str
    name: str
    named: bool


CLAIMS = (
    Claim(glob="pyproject.toml", name="pyproject.toml", named=True),
    Claim(glob="./pyproject.toml", name="pyproject.toml", named=True),
    Claim(glob="**/conftest.py", name="tests/unit/conftest.py", named=True),
    Claim(glob="tests/*/conftest.py", name="tests/unit/conftest.py", named=True),
    Claim(glob="pyproject.toml", name="web/pyproject.toml", named=False),
    Claim(glob="**", name="conftest.py", named=False),
    Claim(glob="**/*", name="conftest.py", named=False),
    Claim(glob="tests", name="tests/conftest.py", named=False),
    Claim(glob="tests/*.py", name="tests/conftest.py", named=False),
    Claim(glob="conftest.*", name="conftest.py", named=False),
)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.glob} {claim.name}")
def test_a_file_is_named_by_its_own_name_alone(claim: Claim) -> None:
    assert names_file(claim.name, (claim.glob,)) is claim.named


@pytest.mark.parametrize(
    ("line", "looks"),
    [
        ("test -f made", True),
        ("cd web && grep -q 'a b' x | wc -l; true", True),
        ("LANG=C diff a b > c", True),
        ("pytest", False),
        ("test -f made && pytest", False),
        ("(test -f made);pytest", False),
        ("test -f made\npytest", False),
        ('test -n "$(pytest -q)"', False),
        ("diff a <(python3 app.py)", False),
        ("bash -c 'test -f made'", False),
        ("./test", False),
    ],
)
def test_lines_that_only_look_are_told_from_those_that_run_something(line: str, looks: bool) -> None:  # noqa: FBT001  a table
    assert only_looks([line]) is looks


def verification(root: Path, *lines: str, others: tuple[str, ...] = (), **fields: Any) -> TamperGuard:
    task = task_of(verify=lines or ("python3 -m pytest",), **fields)
    return TamperGuard(task, root, root.parent / record_name(task), lambda: others)


def put(root: Path, name: str, text: str = "x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    put(folder, "pytest.ini", "[pytest]\n")
    put(folder, "Makefile", "test:\n\tpytest\n")
    put(folder, "calendar.py")
    return folder


def found(checks: TamperGuard) -> dict[str, str]:
    return {one.name: one.how for one in checks.config_changes()}


def test_what_became_of_each_is_told(root: Path) -> None:
    checks = verification(root)
    assert found(checks) == {}

    put(root, "sub/conftest.py")
    put(root, "pytest.ini", "[pytest]\naddopts = -k nothing\n")
    (root / "Makefile").unlink()

    assert found(checks) == {"sub/conftest.py": "was created", "pytest.ini": "changed", "Makefile": "was deleted"}
    assert set(checks.changed()) == {"sub/conftest.py", "pytest.ini", "Makefile"}


def test_how_they_were_is_known_to_a_later_process_and_put_back_they_are_forgotten(root: Path) -> None:
    verification(root)
    conftest = put(root, "conftest.py")
    assert found(verification(root)) == {"conftest.py": "was created"}

    conftest.unlink()

    assert found(verification(root)) == {}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("json.py", "python3 -m pytest"),
        ("pytest.py", "python3 -m pytest"),
        ("unittest/__init__.py", "python3 -m unittest"),
        ("coverage/__init__.py", "python3 -m pytest --cov"),
        ("web/json.py", "cd web && python3 -m pytest"),
        ("scripts/json.py", "python3 scripts/check.py"),
        ("src/json.py", "PYTHONPATH=src pytest"),
        ("tests/json.py", "pytest"),
    ],
)
def test_a_module_in_the_place_of_one_of_pythons_or_of_a_tool_counts(root: Path, name: str, line: str) -> None:
    put(root, "web/a.py")
    put(root, "scripts/check.py")
    put(root, "tests/test_a.py")
    checks = verification(root, line)

    put(root, name)

    assert found(checks) == {name: "was created"}


@pytest.mark.parametrize(
    "name",
    [
        "app/json.py",  # a package's own module
        "app/__init__.py",
        "json/data.txt",
        "json.txt",
        "parser.py",
        "node_modules/left/package.json",
        ".venv/lib/python3.11/site-packages/x.pth",
        "env/lib/python3.11/site-packages/sitecustomize.py",
        "build/CMakeLists.txt",
        ".pytest_cache/conftest.py",
    ],
)
def test_ordinary_files_dependencies_and_what_is_built_configure_nothing(root: Path, name: str) -> None:
    checks = verification(root, "python3 -m pytest app")

    put(root, name)

    assert found(checks) == {}


def test_a_module_that_was_there_from_the_start_may_be_worked_on(root: Path) -> None:
    checks = verification(root)

    put(root, "calendar.py", "other")

    assert found(checks) == {}
    assert not checks.configures(root / "calendar.py")


def test_what_writes_names_is_the_steps_own(root: Path) -> None:
    checks = verification(root, writes=("pytest.ini", "**"))

    put(root, "pytest.ini", "other")
    put(root, "conftest.py")

    assert found(checks) == {"conftest.py": "was created"}


def test_checks_that_only_look_are_configured_by_nothing(root: Path) -> None:
    checks = verification(root, "test -f pyproject.toml")

    put(root, "pyproject.toml")

    assert found(checks) == {}
    assert not checks.configures(root / "pyproject.toml")


def test_what_a_neighbour_claimed_is_its_to_change(root: Path) -> None:
    checks = verification(root, others=("conftest.py", "Makefile"))
    put(root, "conftest.py")
    (root / "Makefile").unlink()
    assert found(checks) == {}

    later = verification(root)

    assert found(later) == {}
    put(root, "conftest.py", "other")
    assert found(later) == {"conftest.py": "changed"}


def test_a_makefile_that_a_check_builds_is_not_the_steps_doing(root: Path) -> None:
    checks = verification(root, "cmake -B out && make -C out")
    put(root, "out/Makefile")
    put(root, "out/conftest.py")

    checks.checked()

    assert found(checks) == {"out/conftest.py": "was created"}
    put(root, "out/Makefile", "other")
    assert found(checks) == {"out/conftest.py": "was created", "out/Makefile": "changed"}


def test_names_that_are_no_utf_8_are_told_all_the_same(root: Path) -> None:
    odd = root / os.fsdecode(b"odd\xff")
    odd.mkdir()
    (odd / "test_a.py").touch()
    checks = verification(root, "pytest odd*")

    (odd / "conftest.py").touch()

    assert found(checks) == {"odd\\udcff/conftest.py": "was created"}


@pytest.mark.parametrize("name", ["conftest.py", "sub/Makefile", "json.py", "pytest.ini"])
def test_the_file_tools_may_not_write_them(root: Path, name: str) -> None:
    checks = verification(root)
    workspace = Workspace(root=root, configures_checks=checks.configures)

    with pytest.raises(PathError, match=f"{name}.*configures the checks of this step.*`writes` names it"):
        workspace.writable(name)

    named = verification(root, writes=(name,)).configures
    assert Workspace(root=root, writes=(name,), configures_checks=named).writable(name) == root / name
