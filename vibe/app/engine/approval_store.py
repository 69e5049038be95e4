"""Approvals that outlive a run: read from the user's settings, and written there when a person says "always"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.core.config.models import VibeConfig
from vibe.core.tools.approvals import Approvals
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver

KEY = "approved"


def approvals_for(
    host: Host, config: VibeConfig, workspace: Path, mode: ApprovalMode, approver: Approver | None
) -> Approvals:
    """The approvals of a run in ``workspace``; a yes that was given for another folder says nothing here."""
    prefix = f"{workspace}: "

    def keep(keys: Sequence[str]) -> None:
        writer = Settings(host, workspace).writer(project=False, key=KEY)
        writer.add_to_list(KEY, *(prefix + key for key in keys))

    remembered = [entry.removeprefix(prefix) for entry in config.approved if entry.startswith(prefix)]
    return Approvals(mode, approver, remembered=remembered, keep=keep)
