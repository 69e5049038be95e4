"""The whole way: a goal in words becomes a plan, is run, checked, corrected, decided upon and merged into a repository.

Covers ``planner``, ``subagents``, ``vibe.app.plan``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import VibeCommand, leftovers
from tests.e2e.test_worktrees import git, nothing_is_left

SHOP = "def total(prices):\n    return sum(prices)\n"
DISCOUNT = "def total(prices, discount=0):\n    return sum(prices) * (1 - discount)\n"
WRONG = DISCOUNT.replace("(1 - discount)", "(1 - 2 * discount)")
TAX = "def total(prices, tax=0):\n    return sum(prices) * (1 + tax)\n"
BOTH = "def total(prices, discount=0, tax=0):\n    return sum(prices) * (1 - discount) * (1 + tax)\n"

DISCOUNT_CHECK = """python -c "import shop; assert shop.total([4], discount=.5) == 2" """.strip()
TAX_CHECK = """python -c "import shop; assert shop.total([4], tax=.5) == 6" """.strip()
LABEL_CHECK = "grep -q EUR label.txt"

PLAN = {
    "context": "Assumption: discounts and taxes are fractions.",
    "decisions": [
        {
            "id": "currency",
            "question": "Which currency do the labels show?",
            "options": [{"id": "euro", "label": "Euro"}, {"id": "dollar", "label": "Dollar"}],
        }
    ],
    "steps": [
        {
            "id": "discount",
            "title": "Add a discount",
            "mode": "code",
            "workspace": "worktree",
            "writes": ["shop.py"],
            "verify": [DISCOUNT_CHECK],
        },
        {
            "id": "tax",
            "title": "Add a tax",
            "mode": "code",
            "workspace": "worktree",
            "writes": ["shop.py"],
            "verify": [TAX_CHECK],
        },
        {
            "id": "label",
            "title": "Write the label in euro",
            "mode": "docs",
            "decision": "currency",
            "when": {"currency": ["euro"]},
            "writes": ["label.txt"],
            "verify": [LABEL_CHECK],
            "on_failure": "replan",
        },
        {
            "id": "dollars",
            "title": "Write the label in dollars",
            "mode": "run",
            "command": "echo USD > label.txt",
            "decision": "currency",
            "when": {"currency": ["dollar"]},
        },
        {
            "id": "check",
            "title": "Run everything together",
            "mode": "test",
            "command": f"{DISCOUNT_CHECK} && {TAX_CHECK} && {LABEL_CHECK}",
            "depends_on": ["discount", "tax", "label", "dollars"],
        },
    ],
}

REVISION = {
    "operations": [
        {"op": "remove_edge", "step": "check", "depends_on": "label"},
        {"op": "remove_step", "id": "label"},
        {
            "op": "add_step",
            "step": {
                "id": "code",
                "title": "Write the code of the currency",
                "mode": "docs",
                "prompt": "Write EUR, in capitals.",
                "writes": ["label.txt"],
                "verify": [LABEL_CHECK],
            },
        },
        {"op": "add_edge", "step": "check", "depends_on": {"step": "code"}},
    ],
    "reason": "the label was written in words",
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def writing(path: str, *contents: str, **extra: Any) -> dict[str, Any]:
    """Script an agent that writes a file, and writes it again each time it is sent back."""
    turns: list[dict[str, Any]] = [{**call("read_file", path=path), **extra}]
    for content in contents:
        turns.append(call("write_file", path=path, content=content, overwrite=True))
        turns.append({"text": f"{path} is written."})
    return {"turns": turns}


def shop(vibe: VibeCommand) -> Path:
    """Create a repository with one module, and a file that its user is editing."""
    root = vibe.workdir
    (root / "shop.py").write_text(SHOP)
    (root / "notes.txt").write_text("one\n")
    (root / ".gitignore").write_text("__pycache__/\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "Ada"),
        ("config", "user.email", "ada@example.org"),
        ("add", "-A"),
        ("commit", "-qm", "start"),
    ):
        git(root, *words)
    (root / "notes.txt").write_text("one\nmine\n")
    return root


def test_a_goal_becomes_verified_merged_work(vibe: VibeCommand) -> None:
    root, plan_file, page = shop(vibe), vibe.home.parent / "plan.json", vibe.home.parent / "report.html"
    vibe.replay({
        "agents": {"planner": {"turns": [call("read_file", path="shop.py"), call("hand_in_plan", value=PLAN)]}}
    })
    planned = vibe("plan", "new", "Discounts, taxes and labels", "-o", str(plan_file))
    assert planned.code == 0, planned.err
    assert "edit the same files" in planned.err, "two steps side by side write shop.py"

    vibe.replay({
        "agents": {
            "discount": writing("shop.py", WRONG, DISCOUNT),
            "tax": writing("shop.py", TAX),
            "*:merge1": writing("shop.py", BOTH),
            "label": {
                "turns": [
                    call("write_file", path="label.txt", content="euro\n"),
                    {"text": "Done."},
                    {"text": "It is right as it is."},
                    {"text": "It is right as it is."},
                ]
            },
            "code": writing("label.txt", "EUR\n"),
            "planner": {"turns": [call("read_file", path="label.txt"), call("hand_in_revision", value=REVISION)]},
        }
    })
    run = ("plan", "run", "--auto-approve", "--accept-commands", "--allow-dirty", "--output", "json", str(plan_file))
    waiting = vibe(*run)
    assert waiting.code == 5, waiting.err
    assert waiting.document["outcome"] == "blocked"
    merging = 3
    assert waiting.document["usage"]["calls"] == 5 + 3 + merging, "the discount was mended, and one of the two merged"
    plan_id = waiting.document["plan_id"]

    decided = vibe("plan", "decide", plan_id, "currency", "euro")
    assert decided.code == 0, decided.err
    ended = vibe("plan", "resume", plan_id, "--output", "json", "--report", str(page))

    steps = {step["id"]: step for step in ended.document["steps"]}
    assert ended.code == 0, (
        json.dumps(
            [
                {k: s.get(k) for k in ("id", "status", "reason", "detail", "summary", "attempts")}
                for s in ended.document["steps"]
            ],
            indent=1,
        )
        + ended.err
    )
    assert {name: step["status"] for name, step in steps.items()} == {
        "discount": "completed",
        "tax": "completed",
        "code": "completed",
        "dollars": "skipped",
        "check": "completed",
    }
    assert (root / "shop.py").read_text() == git(root, "show", "HEAD:shop.py") == BOTH
    assert (root / "label.txt").read_text() == "EUR\n"
    assert git(root, "show", "HEAD:notes.txt") == "one\n"
    assert (root / "notes.txt").read_text() == "one\nmine\n"
    assert len(git(root, "log", "--merges", "--format=%h").split()) == 2
    nothing_is_left(vibe)
    assert leftovers(vibe.workdir) == []
    shown = page.read_text()
    for words in ("Discounts, taxes and labels", "<svg", "Which currency", "Write the code of the currency"):
        assert words in shown
