from __future__ import annotations

from pathlib import Path

import pytest

from vibe.app.engine.build import approvals_for
from vibe.app.engine.host import Host
from vibe.core.config.loader import ConfigRequest, load_config
from vibe.core.config.models import VibeConfig
from vibe.core.tools.permissions import ApprovalMode
from vibe.system.errors import VibeError

PUSH = "bash: git push origin main"


def settings_of(home: Path, workspace: Path) -> VibeConfig:
    return load_config(ConfigRequest(home=home, workdir=workspace)).config


def test_a_lasting_yes_is_there_in_the_next_run_in_the_same_folder_only(vibe_home: Path, tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    (vibe_home / "config.toml").write_text('# mine\nactive_model = "local"  # the one at home\n')
    host = Host(home=vibe_home, environ={})

    approvals_for(host, settings_of(vibe_home, here), here, ApprovalMode.ASK, None).keep([PUSH])

    later = settings_of(vibe_home, here)
    assert approvals_for(host, later, here, ApprovalMode.ASK, None).remembers([PUSH])
    assert not approvals_for(host, later, elsewhere, ApprovalMode.ASK, None).remembers([PUSH])
    assert not approvals_for(host, later, here, ApprovalMode.ASK, None).remembers([
        "bash: git push origin main --force"
    ])
    assert "# mine" in (vibe_home / "config.toml").read_text()


def test_settings_that_cannot_be_written_are_said(vibe_home: Path, tmp_path: Path) -> None:
    (vibe_home / "config.toml").mkdir()

    approvals = approvals_for(Host(home=vibe_home, environ={}), VibeConfig(), tmp_path, ApprovalMode.ASK, None)
    with pytest.raises(VibeError, match=r"config\.toml"):
        approvals.keep([PUSH])
