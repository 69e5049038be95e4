"""Permission hooks of tools written for Mistral Vibe are respected, but open nothing that would be closed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ipc.sink import MemorySink
from tests.fakes.tools import Allowed, PassArgs, Save, SaveArgs
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, TextResult, ToolPermission
from vibe.core.tools.gate import Approvals, Gate
from vibe.core.tools.permissions import PermissionDecision, Ruling
from vibe.core.tools.workspace import Workspace

ALWAYS, ASK, NEVER = ToolPermission.ALWAYS, ToolPermission.ASK, ToolPermission.NEVER


class Hooked(BaseTool[PassArgs, TextResult, BaseToolConfig, BaseToolState]):
    """Answers ``by_lists`` and ``by_rules``; where that is None, what the base class does."""

    by_lists: ClassVar[Any] = None
    by_rules: ClassVar[Any] = None
    asked: ClassVar[list[str]] = []

    async def run(self, args: PassArgs) -> TextResult:
        return TextResult(text=args.name)

    def check_allowlist_denylist(self, args: Any) -> Any:
        self.asked.append("lists")
        return self.by_lists or super().check_allowlist_denylist(args)

    def resolve_permission(self, args: Any) -> Any:
        self.asked.append("rules")
        return self.by_rules or super().resolve_permission(args)


class Allowing(Hooked):
    """The same where the settings allow every call."""

    @classmethod
    def config_class(cls) -> type[BaseToolConfig]:
        return Allowed


def decision(tool: BaseTool[Any, Any, Any, Any], root: Path, **arguments: Any) -> PermissionDecision:
    _, found = Gate(Workspace(root=root), Approvals(), MemorySink()).judge(tool, tool.parse(arguments))
    return found


def context(permission: str) -> SimpleNamespace:
    """Return the part we read of what ``resolve_permission`` returns in 2.x."""
    return SimpleNamespace(permission=permission, required_permissions=[], reason="it says so")


@pytest.mark.parametrize(
    ("by_lists", "by_rules", "ruling", "rule"),
    [
        (None, None, Ruling.ASK, "permission"),
        (ALWAYS, None, Ruling.ALLOW, "allowlist"),
        (NEVER, None, Ruling.DENY, "denylist"),
        (None, ALWAYS, Ruling.ALLOW, "allowlist"),
        (None, NEVER, Ruling.DENY, "denylist"),
        (None, context("always"), Ruling.ALLOW, "allowlist"),
        (None, context("never"), Ruling.DENY, "denylist"),
        (ALWAYS, ASK, Ruling.ASK, "permission"),
        (ALWAYS, NEVER, Ruling.DENY, "denylist"),
        (NEVER, ALWAYS, Ruling.DENY, "denylist"),
    ],
)
def test_a_hook_answers_for_its_tool_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_lists: Any, by_rules: Any, ruling: Ruling, rule: str
) -> None:
    asked: list[str] = []
    for name, value in (("by_lists", by_lists), ("by_rules", by_rules), ("asked", asked)):
        monkeypatch.setattr(Hooked, name, value)
    found = decision(Hooked.from_config(BaseToolConfig()), tmp_path, name="x")
    assert (found.ruling, found.rule) == (ruling, rule)
    assert asked == ["lists", "rules"]
    assert not isinstance(by_rules, SimpleNamespace) or ruling is Ruling.ALLOW or "it says so" in found.reason


@pytest.mark.parametrize("permission", [ASK, context("ask")])
def test_a_tool_that_asks_is_asked_about_where_its_settings_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, permission: Any
) -> None:
    tool = Allowing.from_config(Allowed())
    assert decision(tool, tmp_path, name="x").ruling is Ruling.ALLOW
    monkeypatch.setattr(Hooked, "by_rules", permission)
    assert decision(tool, tmp_path, name="x").ruling is Ruling.ASK


def test_a_deny_list_holds_whatever_a_hook_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hooked, "by_rules", ALWAYS)
    tool = Hooked.from_config(BaseToolConfig(denylist=["secret*"]))
    assert decision(tool, tmp_path, name="secrets").rule == "denylist"
    assert decision(tool, tmp_path, name="other").ruling is Ruling.ALLOW


@pytest.mark.parametrize(
    ("answer", "path", "rule"),
    [
        (NEVER, "a.txt", "denylist"),
        (ALWAYS, "a.txt", "permission"),
        (ALWAYS, "../a.txt", "outside"),
        (ALWAYS, ".env", "sensitive"),
        (ASK, "a.txt", "permission"),
        (None, "a.txt", "permission"),
    ],
)
def test_a_tool_that_names_its_paths_is_only_held_back_by_a_hook(
    tmp_path: Path, answer: ToolPermission | None, path: str, rule: str
) -> None:
    class Writer(Save):
        def check_allowlist_denylist(self, args: SaveArgs) -> ToolPermission | None:  # noqa: ARG002  the shape of a hook
            return answer

    (tmp_path / "work").mkdir()
    assert decision(Writer.from_config(BaseToolConfig()), tmp_path / "work", path=path).rule == rule


def test_an_answer_that_is_no_permission_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hooked, "by_rules", "yes")
    with pytest.raises(ValueError, match="yes"):
        decision(Hooked.from_config(BaseToolConfig()), tmp_path, name="x")
