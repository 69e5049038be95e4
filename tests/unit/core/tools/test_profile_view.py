from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ipc.sink import MemorySink
from vibe.core.agents.manager import BrokenAgentError, read_agent_file
from vibe.core.agents.models import BUILTIN_AGENTS, AgentProfile
from vibe.core.config.models import VibeConfig
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, TextResult, ToolPermission
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.gate import Approvals, Gate
from vibe.core.tools.manager import ToolManager, profile_view, unattended
from vibe.core.tools.permissions import ApprovalMode, Ruling
from vibe.core.tools.questions import Choice
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.verdict import DEFAULT_ALLOWED


def tools(root: Path, tables: Mapping[str, dict[str, Any]] | None = None) -> ToolManager:
    return ToolManager(ToolSources(root=root), VibeConfig(tools=dict(tables or {})))


def profile(tmp_path: Path, text: str) -> AgentProfile:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return read_agent_file(path, "mine.toml")


def test_a_safe_agent_has_no_tool_that_writes_or_reaches_the_network(tmp_path: Path) -> None:
    for chosen in (BUILTIN_AGENTS["plan"], BUILTIN_AGENTS["explore"], profile(tmp_path, 'safety = "safe"')):
        view = profile_view(tools(tmp_path), chosen, may_widen=True)

        assert {"read_file", "grep", "glob", "list_dir"} <= set(view.available)
        assert all(cls.read_only and not cls.uses_network for cls in view.available.values())
        assert not {"bash", "write_file", "search_replace", "web_fetch"} & set(view.available)


def test_always_in_a_profile_never_widens_never_or_a_deny_rule(tmp_path: Path) -> None:
    given = tools(tmp_path, {"bash": {"permission": "never"}, "write_file": {"denylist": ["secret/*"]}})
    chosen = profile(
        tmp_path,
        'safety = "neutral"\n[tools.bash]\npermission = "always"\n'
        '[tools.write_file]\npermission = "always"\ndenylist = ["docs/*"]\n',
    )

    view = profile_view(given, chosen, may_widen=True)

    assert view.get_tool_config("bash").permission is ToolPermission.NEVER
    assert view.get_tool_config("write_file").permission is ToolPermission.ALWAYS
    assert view.get_tool_config("write_file").denylist == ["secret/*", "docs/*"]
    assert given.get_tool_config("write_file").permission is ToolPermission.ASK


def test_a_profile_nobody_chose_only_narrows(tmp_path: Path) -> None:
    given = tools(tmp_path, {"bash": {"allowlist": ["ls", "git status"]}})
    chosen = profile(
        tmp_path,
        '[tools.bash]\npermission = "always"\nallowlist = ["ls", "rm"]\ndefault_timeout = 9\n[tools.grep]\n'
        'permission = "never"\n',
    )

    view = profile_view(given, chosen, may_widen=False)

    assert view.get_tool_config("bash").permission is ToolPermission.ASK
    assert view.get_tool_config("bash").allowlist == ["ls"]
    assert view.get_tool_config("bash").model_dump()["default_timeout"] == 300
    assert view.get_tool_config("grep").permission is ToolPermission.NEVER
    widened = profile_view(given, chosen, may_widen=True)
    assert widened.get_tool_config("bash").permission is ToolPermission.ALWAYS
    assert widened.get_tool_config("bash").model_dump()["default_timeout"] == 9


def test_a_view_is_never_wider_than_the_one_it_is_taken_from(tmp_path: Path) -> None:
    parent = tools(tmp_path).filtered(["read_file", "grep"])

    assert set(profile_view(parent, BUILTIN_AGENTS["auto-approve"], may_widen=True).available) == {
        "grep",
        "read_file",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[tools.bsh]\npermission = "never"', "mine.toml:1: tools.bsh: is not a tool, did you mean 'bash'?"),
        ("[tools.bash]\ndefault_timout = 3", "mine.toml:2: tools.bash.default_timout: unknown setting of bash"),
        ('[tools.bash]\ndefault_timeout = "soon"', "mine.toml:1: tools.bash"),
        ('disabled_tools = ["bashh"]', "mine.toml:1: disabled_tools: 'bashh' is not a tool, did you mean 'bash'?"),
        ("[tools.edit]\nmax_content_sise = 1", "mine.toml:2: tools.edit.max_content_sise"),
    ],
)
def test_a_restriction_that_would_have_no_effect_is_an_error(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BrokenAgentError) as raised:
        profile_view(tools(tmp_path), profile(tmp_path, text), may_widen=True)
    assert sentence in str(raised.value)


def test_a_table_for_a_tool_that_is_not_there_today_does_no_harm(tmp_path: Path) -> None:
    chosen = profile(tmp_path, '[tools.some_server_query]\npermission = "never"')

    assert profile_view(tools(tmp_path), chosen, may_widen=True).available


def test_nobody_watching_means_no_tool_that_needs_a_person(tmp_path: Path) -> None:
    assert "ask_user_question" in tools(tmp_path).available
    assert "ask_user_question" not in unattended(tools(tmp_path)).available


class Upload(BaseTool[Choice, TextResult, BaseToolConfig, BaseToolState]):
    """Sends something away."""

    read_only = True
    uses_network = True

    async def run(self, args: Choice) -> TextResult:
        return TextResult(text=args.label)


def test_a_tool_that_changes_nothing_here_but_reaches_the_network_is_not_safe(tmp_path: Path) -> None:
    given = ToolManager(ToolSources(root=tmp_path, extra=(Upload,)), VibeConfig())

    assert "upload" in given.available
    assert "upload" not in profile_view(given, BUILTIN_AGENTS["plan"], may_widen=True).available


class UploadLater(Upload):
    """Comes when its server is there."""

    read_only = False


def test_what_comes_later_keeps_to_the_profile_too(tmp_path: Path) -> None:
    given = tools(tmp_path)
    mine = profile(tmp_path, '[tools.upload_later]\npermission = "never"')
    views = {
        "main": unattended(profile_view(given, BUILTIN_AGENTS["default"], may_widen=True)),
        "plan": unattended(profile_view(given, BUILTIN_AGENTS["plan"], may_widen=True)),
        "mine": profile_view(given, mine, may_widen=True),
    }

    given.adopt(given.survey((Upload, UploadLater)))

    assert {"upload", "upload_later"} <= set(views["main"].available)
    assert not {"upload", "upload_later"} & set(views["plan"].available)
    assert views["mine"].get_tool_config("upload_later").permission is ToolPermission.NEVER


READER = """
safety = "safe"
agent_type = "subagent"
[tools.bash]
permission = "always"
[tools.write_file]
permission = "always"
"""


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("ls && git log -1", True), ("cat notes.txt | head", True), ("touch x", False), ("npm test", False),
        ("echo a > x", False), ("curl example.org", False), ("python3 -c 1", False), ("git log --output=x", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ApprovalMode)
def test_a_safe_agent_that_names_bash_has_one_that_only_reads(
    tmp_path: Path, line: str, allowed: object, mode: ApprovalMode
) -> None:
    given = tools(tmp_path, {"bash": {"allowlist": [*DEFAULT_ALLOWED, "npm test", "touch"]}})
    view = profile_view(given, profile(tmp_path, READER), may_widen=True)
    assert "write_file" not in view.available
    bash, workspace = view.get("bash"), Workspace(root=tmp_path)
    _, decision = Gate(workspace, Approvals(mode), MemorySink()).judge(bash, bash.parse({"command": line}))
    assert decision.ruling is (Ruling.ALLOW if allowed else Ruling.DENY)
    assert allowed or "only reads" in decision.reason
