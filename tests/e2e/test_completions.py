"""Covers ``vibe.cli.commands``."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.terminal import Terminal

PLANS = ("3f09aa-20260101", "77aa00-20260101", "$(touch${IFS}hacked)")
SETTINGS = """active_model = "nimble"
[[models]]
name = "m1"
alias = "nimble"
provider = "mistral"
[[models]]
name = "m2"
alias = "nim$(touch${IFS}hacked)"
provider = "mistral"
[[mcp_servers]]
name = "search"
transport = "stdio"
command = "true"
"""
SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


def needs(program: str) -> None:
    """Skip the test if a program is missing, unless ``EVERY_PROGRAM`` says that it must exist."""
    if not shutil.which(program) and not os.environ.get("EVERY_PROGRAM"):
        pytest.skip(f"there is no {program}")


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_typed_is_completed(shell: str, vibe: VibeCommand) -> None:
    needs(shell)
    (vibe.workdir / "notes.json").touch()
    (vibe.workdir / "a b.json").touch()
    for plan in PLANS:
        (vibe.home / "plans" / plan).mkdir(parents=True)
    vibe.configure(SETTINGS)
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
                ("help plan gra", "help plan graph"),
                ("events answer lat", "events answer latest"),
                ("--attach lat", "--attach latest"),
                ("plan run --output=st", "plan run --output=streaming"),
                ("plan graph x.json --format=mer", "plan graph x.json --format=mermaid"),
                ("plan run --only=a --model=nim", "plan run --only=a --model=nimble"),
                ("plan run --dry", "plan run --dry-run"),
                ("plan run no", "plan run notes.json"),
                ("plan run notes.json --accept", "plan run notes.json --accept-commands"),
                ("plan run notes.json --output st", "plan run notes.json --output streaming"),
                ("plan validate a", "plan validate a b.json"),
                ("plan run --workdir no", "plan run --workdir notes.json"),
                ("plan status latest --output js", "plan status latest --output json"),
                ("--auto", "--auto-approve"),
                ("plan status 3f", "plan status 3f09aa-20260101"),
                ("plan resume la", "plan resume latest"),
                ("plan show no", "plan show notes.json"),
                ("plan run --reuse 77", "plan run --reuse 77aa00-20260101"),
                ("--agent acc", "--agent accept-edits"),
                ("plan run --model nim", "plan run --model nimble"),
                ("mcp remove sea", "mcp remove search"),
                ("setup --provider ope", "setup --provider open"),
                ("completions f", "completions fish"),
            ):
                terminal.type(f"vibe {typed}\t\r")
                terminal.wait_until_seen(f"<{completed}")
        finally:
            process.kill()
            process.wait()
    assert not (vibe.workdir / "hacked").exists()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("vibe plan re", {"report", "resume", "retry", "review", "rewind"}),
        ("vibe plan run --output ", {"json", "streaming", "text"}),
        ("vibe plan run --output=", {"--output=json", "--output=streaming", "--output=text"}),
        ("vibe plan run --model=ni", {"--model=nimble"}),
        ("vibe plan run --workdir=", {"--workdir=sub/"}),
        ("vibe help plan re", {"report", "resume", "retry", "review", "rewind"}),
        ("vibe events tail ", {"latest"}),
        ("vibe plan report --format ", {"html", "json", "junit", "md"}),
        ("vibe plan run --workdir ", {"sub/"}),
        ("vibe -p x --outp", {"--output", "--output-dir", "--output-schema"}),
        ("vibe config set --", {"--help", "--project", "--workdir"}),
        ("vibe plan run ", {"demo", "review", "sub/"}),
        ("vibe completions ", {"bash", "fish", "zsh"}),
        ("vibe plan status ", {"3f09aa-20260101", "77aa00-20260101", "latest"}),
        ("vibe plan show ", {"3f09aa-20260101", "77aa00-20260101", "latest", "sub/"}),
        ("vibe plan run --model ni", {"nimble"}),
        ("vibe --agent ", {"accept-edits", "auto-approve", "chat", "default", "lean", "plan"}),
        ("vibe mcp logout ", {"search"}),
    ],
)
def test_fish_offers_what_may_follow_and_nothing_else(vibe: VibeCommand, line: str, offered: set[str]) -> None:
    needs("fish")
    (vibe.workdir / "sub").mkdir()
    for plan in PLANS:
        (vibe.home / "plans" / plan).mkdir(parents=True)
    vibe.configure(SETTINGS)
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
    missing = vibe("completions")
    assert (missing.code, missing.err) == (2, "vibe: SHELL is missing: choose from bash, zsh, fish\n")
