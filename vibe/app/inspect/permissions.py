"""PermissionCheck: the decision about a tool call, made by the same code as in a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ipc.sink import MemorySink
from vibe.app.engine.build import EngineRequest, build_engine
from vibe.app.engine.host import Host
from vibe.core.tools.base import AnyTool
from vibe.core.tools.errors import NoSuchToolError, PathError, ToolArgumentsError
from vibe.core.tools.executor import unreadable_globs
from vibe.core.tools.gate import Gate
from vibe.core.tools.manager import profile_view
from vibe.core.tools.permissions import ApprovalMode, PermissionDecision, Ruling
from vibe.system.errors import UsageError, error_as


class PermissionCheck:
    """Decides about calls of one tool without making them. Reads files for each decision."""

    def __init__(self, tool: AnyTool, gate: Gate) -> None:
        self._tool = tool
        self._gate = gate
        self._first = next(iter(tool.get_parameters().get("properties", {})), None)

    @classmethod
    def of(
        cls, tool: str, request: EngineRequest, host: Host, *, extra_roots: tuple[Path, ...], auto_approve: bool
    ) -> PermissionCheck:
        """Return the check of a tool as a new run would have it. Reads files.

        Raises:
            UsageError: the configuration is wrong, or there is no such agent or tool.
        """
        engine = build_engine(host, request)
        profile = engine.chosen
        unasked = auto_approve or engine.config.auto_approve or profile.auto_approve
        workspace = engine.workspace(request.workdir, extra_roots=extra_roots)
        workspace = workspace.without_reading(unreadable_globs(engine.tools))  # conversations do the same
        approvals = engine.approvals(ApprovalMode.ALL if unasked else ApprovalMode.ASK, None)
        gate = Gate(workspace, approvals, MemorySink(), engine.confinement)
        with error_as(NoSuchToolError, lambda error: UsageError(f"{error} (agent {profile.name!r})")):
            return cls(profile_view(engine.tools, profile, may_widen=True).get(tool), gate)

    def decide(self, given: str | Mapping[str, Any]) -> PermissionDecision:
        """Return the decision about a call with these arguments. A text stands for the tool's first argument.

        Raises:
            ToolArgumentsError: they don't fit the tool.
        """
        args = self._tool.parse(self._arguments(given))
        try:
            _, decision = self._gate.judge(self._tool, args)
        except PathError as error:
            return PermissionDecision(ruling=Ruling.DENY, rule="path", reason=str(error))
        return decision

    def _arguments(self, given: str | Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(given, str):
            return given
        if self._first is None:
            raise ToolArgumentsError(self._tool.get_name(), ["it takes no arguments: use {}"])
        return {self._first: given}


def given_arguments(text: str) -> str | Mapping[str, Any]:
    """Return the arguments in a text: an object if it is a JSON object, else the text itself."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        given: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("dict[str, Any]", given) if isinstance(given, dict) else text
