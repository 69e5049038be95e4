"""The documentation site builds from the tree, can be searched, has no dead links and loads nothing from elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.architecture.project import ROOT
from tests.e2e.chromium import PROGRAM, chromium

SOURCES = ("docs", "README.md", "CHANGELOG.md", "zensical.toml", "scripts/site")
ASKED = "performance.getEntriesByType('resource').map(one => new URL(one.name).host)"
SEARCH = "document.activeElement.shadowRoot"


def copied(folder: Path) -> Path:
    """Copy only what the site is built from to ``folder``, and return that."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    return folder


def built(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, folder / "scripts" / "site", *words]
    return subprocess.run(script, capture_output=True, text=True, check=False)


@contextmanager
def served(folder: Path) -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_a_reader_searches_and_nothing_comes_from_elsewhere(tmp_path: Path) -> None:
    done = built(copied(tmp_path / "tree"))
    assert done.returncode == 0, done.stdout + done.stderr

    site = tmp_path / "tree" / "build" / "site"
    names = (site / "reference" / "library.html").read_text(encoding="utf-8")
    assert all(f'id="vibe.sdk.{name}"' in names for name in ("Approval.allow", "Answer.text", "Outcome.COMPLETED"))
    assert all(f'id="vibe.sdk.{name}"' in names for name in ("Step.retries", "StepResult.summary"))  # of their bases

    with served(site) as address, chromium(tmp_path / "browser") as browser:
        page = browser.page(f"{address}/index.html")
        page.look(1300, 900)
        page.click(".md-search__button")
        page.wait(f"{SEARCH}.querySelector('input')")
        page.type("worktree conflict")
        page.wait(f"{SEARCH}.querySelector('a').href.includes('guide/worktrees.html')")
        hosts = set(page.run(ASKED))

    assert hosts == {address.removeprefix("http://")}


def test_help_builds_nothing(tmp_path: Path) -> None:
    done = built(copied(tmp_path), "--help")

    assert (done.returncode, done.stdout.startswith("usage: "), (tmp_path / "build").exists()) == (0, True, False)


@pytest.mark.parametrize(
    ("page", "told"),
    [("guide/hooks.md", "page does not exist"), ("guide/unlisted.md", "its menu lacks guide/unlisted.md")],
)
def test_a_dead_link_and_a_page_nobody_finds_fail_it(tmp_path: Path, page: str, told: str) -> None:
    folder = copied(tmp_path)
    (folder / "docs/reference/library.md").write_text("# Written from docstrings, which takes most of the time\n")
    with (folder / "docs" / page).open("a", encoding="utf-8") as text:
        text.write("\n[gone](nowhere.md)\n")

    done = built(folder)

    assert done.returncode == 1
    assert told in done.stdout + done.stderr
