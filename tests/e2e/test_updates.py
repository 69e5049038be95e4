"""A newer version of vibe is looked up in a real index, by the real installers, and reported.

Covers ``vibe.app.inspect``.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.e2e.test_installs import uv
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until
from tests.fakes.web_server import Page, WebServer
from vibe import __version__
from vibe.app.inspect.updates import Installation, find_installation, newer_version, newest_version

OFFERED = ("0.0.1", "99.0.0", "100.0.0rc1")
PACKAGE = "vibe-orchestrator"
HTML = {"Content-Type": "text/html"}


def wheel(version: str) -> tuple[str, bytes]:
    """Return an empty package with our name."""
    info = f"vibe_orchestrator-{version}.dist-info"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return f"vibe_orchestrator-{version}-py3-none-any.whl", packed.getvalue()


@pytest.fixture
def index() -> Iterator[WebServer]:
    wheels = dict(map(wheel, OFFERED))
    links = "".join(f'<a href="/{name}">{name}</a>' for name in wheels)
    pages = {f"/{name}": Page(body) for name, body in wheels.items()}
    with WebServer({**pages, f"/simple/{PACKAGE}/": Page(links.encode(), headers=HTML)}).running() as server:
        yield server


def surroundings(index: WebServer, tmp_path: Path) -> dict[str, str]:
    """Return a user's settings of both installers, without those of this machine."""
    address = f"http://127.0.0.1:{index.port}/simple"
    return {
        "PATH": f"{uv().parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "UV_DEFAULT_INDEX": address,
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "PIP_INDEX_URL": address,
        "PIP_CONFIG_FILE": os.devnull,
    }


def installed(installer: str, folder: Path, environ: Mapping[str, str], what: str = f"{PACKAGE}==0.0.1") -> Path:
    """Return the Python of an environment in which the installer has installed a package with our name."""
    python = folder / "bin" / "python"
    if installer == "uv":
        subprocess.run([uv(), "venv", "-q", "-p", sys.executable, folder], env=environ, check=True)
        words = [uv(), "pip", "install", "-q", "--python", python, what]
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], env=environ, check=True)
        words = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", what]
    subprocess.run(words, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return python


def asked(installation: Installation, environ: Mapping[str, str]) -> str:
    return anyio.run(newest_version, installation, environ)


@pytest.mark.parametrize(
    ("installer", "marker", "upgrade"),
    [
        ("uv", "uv-receipt.toml", f"uv tool upgrade {PACKAGE}"),
        ("pip", "pipx_metadata.json", f"pipx upgrade {PACKAGE}"),
    ],
)
def test_who_installed_it_is_asked_and_named(
    tmp_path: Path, index: WebServer, installer: str, marker: str, upgrade: str
) -> None:
    environ, prefix = surroundings(index, tmp_path), tmp_path / "environment"
    python = installed(installer, prefix, environ)
    found = find_installation(environ, prefix, str(python))
    assert found is not None
    assert found.upgrade.startswith(("uv pip install --upgrade", f"{python} -m pip install --upgrade"))
    assert asked(found, environ) == "99.0.0"
    (prefix / marker).touch()
    marked = find_installation(environ, prefix, str(python))
    assert marked is not None
    assert marked.upgrade == upgrade

    index.pages.clear()
    elsewhere = {**environ, "UV_CACHE_DIR": str(tmp_path / "empty"), "PIP_NO_CACHE_DIR": "1"}
    assert asked(found, elsewhere) == ""  # an index without the package
    gone = {**elsewhere, "UV_DEFAULT_INDEX": "http://127.0.0.1:9/", "PIP_INDEX_URL": "http://127.0.0.1:9/"}
    assert asked(found, gone | {"PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0"}) == ""


def test_what_comes_from_no_index_is_not_looked_for_at_one(tmp_path: Path, index: WebServer) -> None:
    environ = surroundings(index, tmp_path)
    name, packed = wheel("0.0.1")
    (tmp_path / name).write_bytes(packed)
    installed("uv", tmp_path / "environment", environ, str(tmp_path / name))
    assert find_installation(environ, tmp_path / "environment") is None
    assert find_installation(environ, tmp_path / "nowhere") is None
    assert find_installation(environ, Path(sys.prefix)) is None  # the tests use an installation from a folder


@pytest.mark.parametrize(
    ("text", "is_newer"),
    [
        ("1.2.0", True),
        ("1.1.9", False),
        ("1.3.0rc1", False),
        ("1.1.10", True),
        ("", False),
        ("1.3; rm -rf ~", False),
        ("\x1b[31m2", False),
        ("9" * 5000, False),
    ],
)
def test_only_a_later_release_is_newer(text: str, is_newer: bool) -> None:  # noqa: FBT001  a table
    assert (newer_version(text, "1.1.9") is not None) == is_newer


def test_a_conversation_looks_once_a_day_and_the_next_one_tells(
    vibe: VibeCommand, index: WebServer, tmp_path: Path
) -> None:
    prefix = tmp_path / "environment"
    environ = surroundings(index, tmp_path)
    python = installed("uv", prefix, environ)
    (prefix / "uv-receipt.toml").touch()
    ours = f"{REPOSITORY}\n{sysconfig.get_path('purelib')}\n"
    next(prefix.glob("lib/python*/site-packages")).joinpath("ours.pth").write_text(ours)
    vibe.replay({"agents": {"main": {"turns": [{"text": "Hello."}]}}})
    vibe.environ |= environ
    state = vibe.home / "update_check.json"
    sentence = f"vibe 99.0.0 is available (you have {__version__}): uv tool upgrade {PACKAGE}"

    def talk(*words: str, seen: str, folder: str, more: Mapping[str, str] | None = None) -> str:
        (tmp_path / folder).mkdir()
        with Tmux(tmp_path / folder) as tmux:
            tmux.start([python, "-m", "vibe", *words], cwd=vibe.workdir, env=vibe.variables() | dict(more or {}))
            tmux.wait_for(seen)
            until(lambda: state.exists() or more)
            shown = " ".join(" ".join(tmux.screen()).split())
            tmux.press("C-d")
            tmux.wait_for("EXIT 0")
            return shown

    vibe.run([str(python), "-m", "vibe", "-p", "hi"])
    assert not state.exists()  # nobody would read it
    assert "is available" not in talk(
        "--plain", seen="/help lists", folder="off", more={"VIBE_UPDATES__CHECK": "false"}
    )
    assert not state.exists()

    first = talk("--plain", seen="/help lists", folder="first")
    assert "is available" not in first
    assert json.loads(state.read_text())["newest"] == "99.0.0"
    requests = len(index.hosts)
    assert sentence in talk("--plain", seen="tool upgrade", folder="lines")
    assert "vibe 99.0.0 is available" in talk(seen="uv tool upgrade", folder="screen")
    assert len(index.hosts) == requests  # not again on the same day
