"""Git calls on the user's repository start none of the programs that its settings name."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.core.session.repository import ENVIRON
from vibe.app.plan.reuse import changed_files, head_commit
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.models import ProjectContextConfig, VibeConfig
from vibe.core.instructions.project_context import git_view
from vibe.core.session.snapshots import Snapshots
from vibe.system.git.discovery import git_head

PROGRAMS = (
    "core.fsmonitor", "core.hooksPath", "core.pager", "core.editor", "sequence.editor", "core.sshCommand", "core.gitProxy",
    "core.askPass", "core.alternateRefsCommand", "credential.helper", "diff.external", "diff.x.command", "diff.x.textconv",
    "filter.x.clean", "filter.x.smudge", "filter.x.process", "merge.x.driver", "gpg.program", "pager.diff", "pager.status",
    "remote.o.uploadpack", "interactive.diffFilter", "trailer.x.command", "alias.status", "uploadpack.packObjectsHook",
)  # fmt: skip


@dataclass
class Trap:
    """A repository that lacks an object of its last commit, to be fetched, and names programs in all its settings."""

    base: Path
    root: Path
    before: str = ""
    after: str = ""

    @property
    def ran(self) -> bool:
        """True if any of the programs was started."""
        return (self.base / "ran").exists()

    def git(self, *words: str) -> str:
        """Run plain git, as the user would."""
        done = subprocess.run(["git", *words], cwd=self.root, env=ENVIRON, capture_output=True, text=True, check=False)
        return done.stdout.strip()


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    trap = Trap(base=tmp_path, root=tmp_path / "repo")
    trap.root.mkdir()
    trap.git("init", "-q", "-b", "main")
    (trap.root / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (trap.root / "deep").mkdir()
    for text in ("one\n", "two\n"):
        (trap.root / "deep" / "a.txt").write_text(text)
        trap.git("add", "-A")
        trap.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", text)
    trap.before, trap.after = trap.git("rev-parse", "HEAD~"), trap.git("rev-parse", "HEAD")
    lacking = trap.git("rev-parse", "HEAD~:deep")
    (trap.root / ".git" / "objects" / lacking[:2] / lacking[2:]).unlink()
    program = f"touch {tmp_path}/ran; cat"
    for name in PROGRAMS:
        trap.git("config", name, program)
    settings = {
        "remote.o.url": "ssh://localhost/x",
        "remote.o.promisor": "true",
        "extensions.partialClone": "o",
        "core.repositoryFormatVersion": "1",
        "commit.gpgSign": "true",
        "core.hooksPath": str(tmp_path / "hooks"),
    }
    for name, value in settings.items():
        trap.git("config", name, value)
    (tmp_path / "hooks").mkdir()
    for name in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        hook = tmp_path / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
    (trap.root / "deep" / "a.txt").write_text("three\n")
    (tmp_path / "ran").unlink(missing_ok=True)
    return trap


def ask_for_a_view(trap: Trap) -> object:
    config = VibeConfig(project_context=ProjectContextConfig(default_commit_count=5, timeout_seconds=60))
    return git_view(LoadedConfig(home=trap.base, workdir=trap.root, environ=ENVIRON, config=config))


ASKED: dict[str, Callable[[Trap], object]] = {
    "the head": lambda trap: git_head(trap.root),
    "the base commit": lambda trap: head_commit(trap.root, ENVIRON),
    "what lies between commits": lambda trap: changed_files(trap.root, trap.before, trap.after, ENVIRON),
    "a view for the prompt": ask_for_a_view,
    "a snapshot of the files": lambda trap: Snapshots(trap.root, trap.base / "session", ENVIRON).take(0),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_no_program_of_the_repository_is_started(trap: Trap, ask: Callable[[Trap], object]) -> None:
    ask(trap)
    assert not trap.ran


@pytest.mark.parametrize(
    "words", [("diff", "--name-only", "--no-ext-diff", "HEAD~", "HEAD"), ("status",)], ids=["a fetch", "the files"]
)
def test_the_traps_are_live(trap: Trap, words: tuple[str, ...]) -> None:
    trap.git(*words)
    assert trap.ran
