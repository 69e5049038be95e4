from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.terminal import Terminal

SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


def needs(program: str) -> None:
    """Skip without it; under ``EVERY_PROGRAM`` it has to be there."""
    if not shutil.which(program) and not os.environ.get("EVERY_PROGRAM"):
        pytest.skip(f"there is no {program}")


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_typed_is_completed(shell: str, vibe: VibeCommand) -> None:
    needs(shell)
    (vibe.workdir / "notes.json").touch()
    (vibe.workdir / "a b.json").touch()
    home = vibe.workdir.parent / "shell-home"
    home.mkdir()
    environ = {**vibe.variables(), "HOME": str(home), "TERM": "dumb", "PS1": "$ "}
    with Terminal(columns=200) as terminal:
        process = subprocess.Popen(
            SHELLS[shell],
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            cwd=vibe.workdir,
            env=environ,
            start_new_session=True,
        )
        try:
            terminal.type(f"source <(vibe completions {shell}); vibe() {{ echo \"<$*>\"; }}; echo rea''dy\r")
            terminal.wait_until_seen("ready")
            for typed, completed in (
                ("perm", "permissions"),
                ("plan val", "plan validate"),
                ("help memo", "help memory"),
                ("plan run --dry", "plan run --dry-run"),
                ("plan run no", "plan run notes.json"),
                ("plan run notes.json --accept", "plan run notes.json --accept-commands"),
                ("plan run notes.json --output st", "plan run notes.json --output streaming"),
                ("plan validate a", "plan validate a b.json"),
                ("plan run --workdir no", "plan run --workdir notes.json"),
                ("plan status latest --output js", "plan status latest --output json"),
                ("--auto", "--auto-approve"),
                ("completions f", "completions fish"),
            ):
                terminal.type(f"vibe {typed}\t\r")
                terminal.wait_until_seen(f"<{completed}")
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("vibe plan re", {"report", "resume", "retry", "rewind"}),
        ("vibe plan run --output ", {"json", "streaming", "text"}),
        ("vibe plan report --format ", {"html", "json", "junit", "md"}),
        ("vibe plan run --workdir ", {"sub/"}),
        ("vibe -p x --outp", {"--output", "--output-dir"}),
        ("vibe config set --", {"--help", "--project", "--workdir"}),
        ("vibe plan run ", {"sub/"}),
        ("vibe completions ", {"bash", "fish", "zsh"}),
    ],
)
def test_fish_offers_what_may_follow_and_nothing_else(vibe: VibeCommand, line: str, offered: set[str]) -> None:
    needs("fish")
    (vibe.workdir / "sub").mkdir()
    script = vibe.workdir.parent / "vibe.fish"
    script.write_text(vibe("completions", "fish").out)

    ended = subprocess.run(
        ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(script), line],
        cwd=vibe.workdir,
        env={**vibe.variables(), "HOME": str(vibe.workdir.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert {entry.partition("\t")[0] for entry in ended.stdout.splitlines()} == offered


def test_scripts_are_for_shells_that_are_known(vibe: VibeCommand) -> None:
    assert vibe("completions", "tcsh").err.startswith("vibe: unknown shell 'tcsh': choose from bash, zsh, fish")
