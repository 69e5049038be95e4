"""Every dependency has an exact version in pyproject.toml, and the script that writes them tells platforms apart."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Callable
from typing import Any, cast

from tests.architecture.project import ROOT

NAME = re.compile(r"[A-Za-z0-9._-]+")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: list[str]) -> set[str]:
    matches = filter(None, map(NAME.match, requirements))
    return {match.group().lower().replace("_", "-") for match in matches}


def test_every_dependency_is_pinned() -> None:
    settings = pyproject()
    declared = names(settings["project"]["dependencies"])
    for group in (*settings["dependency-groups"].values(), *settings["project"]["optional-dependencies"].values()):
        declared |= names(group)

    own = {settings["project"]["name"]}  # a group may ask for an extra
    assert declared - own - names(settings["tool"]["uv"]["constraint-dependencies"]) == set()


def test_the_record_says_of_every_dependency_why_it_is_installed() -> None:
    project, text = pyproject()["project"], (ROOT / "docs" / "adr" / "0009-dependencies.md").read_text(encoding="utf-8")
    listed = [
        re.sub(r" \(extra .*\)", "", cell).split(", ") for cell in re.findall(r"^\| (\S.*?) \|", text, re.MULTILINE)
    ]
    installed = names([
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ])

    assert {name for cell in listed for name in cell} - {"package"} == installed


def test_every_pin_is_exact() -> None:
    pins: list[str] = pyproject()["tool"]["uv"]["constraint-dependencies"]

    assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[^\s=*<>~]+( ; .+)?", pin)] == []
    assert pins == sorted(pins, key=lambda pin: pin.partition("==")[0])


def test_the_requirements_are_the_pins_with_hashes_and_no_address() -> None:
    settings, text = pyproject(), (ROOT / "requirements.txt").read_text(encoding="utf-8")
    wanted = re.findall(
        r"^([^\s;\\]+==[^\s;\\]+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    pins = {pin.partition(" ;")[0] for pin in settings["tool"]["uv"]["constraint-dependencies"]}

    wished = names([*settings["project"]["dependencies"], *settings["project"]["optional-dependencies"]["full"]])
    told = "run scripts/requirements: they say what is installed without uv's lock"
    assert {re.sub(r"\[.*\]", "", name) for name, _ in wanted} <= pins, told
    assert wished <= names([name for name, _ in wanted]), told
    assert len(wanted) == sum(not line.startswith(" ") for line in text.splitlines())
    assert "://" not in text


def test_a_marker_stays_only_where_versions_differ() -> None:
    pins = cast("Callable[[list[str]], list[str]]", runpy.run_path(str(ROOT / "scripts" / "pin"))["pins"])

    assert pins([
        "uvicorn[standard]==2.0",
        "colorama==0.4 ; sys_platform == 'win32'",
        "networkx==3.6 ; python_full_version < '3.12'",
        "networkx==3.7 ; python_full_version >= '3.12'",
    ]) == [
        "colorama==0.4",
        "networkx==3.6 ; python_full_version < '3.12'",
        "networkx==3.7 ; python_full_version >= '3.12'",
        "uvicorn==2.0",
    ]
