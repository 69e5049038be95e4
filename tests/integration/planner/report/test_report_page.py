"""A report's page in a real browser, if there is one: it loads nothing, and nothing overlaps at any width."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planner.plan.dag import Dag
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan
from planner.report.html import report_html
from tests.unit.planner.facts import finished, took_up
from tests.unit.planner.report.test_model import done, hostile_report, report_of, started
from tests.unit.planner.scripted_run import make_plan, step

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

MEASURE = """
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, view = frame.contentWindow;
    for (const step of page.querySelectorAll("details")) step.open = true;
    const box = element => element.getBoundingClientRect();
    const inside = [...page.querySelectorAll("main *")].filter(e => !e.closest(".scroll svg, .scroll, pre"));
    const apart = selector => {
      const boxes = [...page.querySelectorAll(selector)].map(box).sort((a, b) => a.top - b.top);
      return boxes.slice(1).every((b, n) => b.top >= boxes[n].bottom - 0.5);
    };
    const steps = [...page.querySelectorAll("svg.vibe-graph > svg")].map(box);
    found[frame.title] = {
      width: view.innerWidth,
      wider: inside.filter(e => box(e).right > view.innerWidth + 1).map(e => e.outerHTML.slice(0, 80)),
      sections: apart("main > *"), rows: apart(".row"), steps: apart("details"),
      blank: inside.length < 20 || steps.length === 0,
      boxesOverlap: steps.some((a, i) => steps.some((b, j) =>
        i < j && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)),
      loaded: view.performance.getEntriesByType("resource").length,
      scripts: page.scripts.length,
    };
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
"""


def pages() -> dict[str, str]:
    plan = make_plan([
        step(f"s{n}", *([f"s{n - 1}", f"s{n // 2}"] if n else ()), title=f"Step number {n}") for n in range(24)
    ])
    records = [took_up(0)]
    for n in range(24):
        records += [started(n, f"s{n}"), *done(n + 0.9, f"s{n}")]
    report = report_of(plan, [*records, finished(at=24, outcome="completed")])
    hostile, hostile_plan = hostile_report()
    return {"plain": page_of(report, plan), "hostile": page_of(hostile, hostile_plan)}


def page_of(report: Any, plan: Plan) -> str:
    loaded = LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=b"", where="test")
    return report_html(report, loaded)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_the_page_fits_a_desk_and_a_phone_and_loads_nothing(tmp_path: Path) -> None:
    frames = "".join(
        f'<iframe title="{name} {width}" width="{width}" height="900" srcdoc="{html.escape(text)}"></iframe>'
        for name, text in pages().items()
        for width in (1200, 360)
    )
    sheet = tmp_path / "sheet.html"
    sheet.write_text(f"<!doctype html><meta charset=utf-8>{frames}<pre id=found></pre><script>{MEASURE}</script>")
    ended = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", sheet.as_uri()],
        capture_output=True,
        timeout=120,
        check=False,
    )
    measured = re.search(r'<pre id="found">(\{.*\})</pre>', ended.stdout.decode())
    assert measured is not None, ended.stderr.decode()[-2000:]
    found = json.loads(html.unescape(measured[1]))

    assert list(found) == ["plain 1200", "plain 360", "hostile 1200", "hostile 360"]
    for name, measures in found.items():
        assert measures == {
            "width": int(name.split()[1]),
            "wider": [],
            "sections": True,
            "rows": True,
            "steps": True,
            "blank": False,
            "boxesOverlap": False,
            "loaded": 0,
            "scripts": 0,
        }, name
