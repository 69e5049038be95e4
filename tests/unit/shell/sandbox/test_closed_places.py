from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.unprivileged import folder_of_nobody
from vibe.app.engine.host import vibe_home
from vibe.shell.sandbox.confinement import Confinement, Place
from vibe.shell.sandbox.secrets import hidden_paths
from vibe.shell.sandbox.settings import SandboxConfig
from vibe.shell.sandbox.temporary import remove_abandoned
from vibe.system.errors import EnvironmentFailure


def test_what_is_closed_to_this_user_keeps_no_command_from_running() -> None:
    with folder_of_nobody() as home:
        closed = home / "closed"
        (closed / "bin").mkdir(parents=True)
        closed.chmod(0)
        environ = {
            "HOME": str(home),
            "PATH": f"{closed}/bin:/usr/bin",
            "GOOGLE_APPLICATION_CREDENTIALS": f"{closed}/key.json",
        }
        confinement = Confinement(SandboxConfig(readable=(f"{closed}/x",)), environ, home / ".vibe", backends=())

        policy = confinement.policy(Place(roots=(home,)), {home: [closed / "hooks"]})

        confinement.close()
        assert closed / "key.json" not in hidden_paths(environ)
        assert closed / "bin" not in policy.shown
        assert not policy.frozen or closed / "hooks" not in policy.frozen


def test_a_repository_that_is_closed_to_this_user_keeps_no_command_from_running() -> None:
    with folder_of_nobody() as home:
        (home / ".git").mkdir(mode=0)
        confinement = Confinement(SandboxConfig(), {"HOME": str(home)}, home / ".vibe", backends=())

        control = confinement._control_of(Place(roots=(home,)))  # pyright: ignore[reportPrivateUsage]  needs no sandbox

        confinement.close()
        assert home / ".git/config" in control[home]


def test_a_user_without_a_home_needs_no_other_than_vibes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", unknown)
    assert vibe_home({"VIBE_HOME": str(tmp_path)}, tmp_path) == tmp_path
    with pytest.raises(EnvironmentFailure, match="set VIBE_HOME to a folder"):
        vibe_home({}, tmp_path)


def test_a_place_for_temporary_files_that_is_closed_to_this_user_holds_nothing_to_remove() -> None:
    with folder_of_nobody() as home:
        (home / "closed/tmp").mkdir(parents=True)
        (home / "closed").chmod(0)

        remove_abandoned(str(home / "closed/tmp"))
