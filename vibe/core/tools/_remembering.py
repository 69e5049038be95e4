"""What a lasting yes to a shell line covers."""

from __future__ import annotations

import re
import shlex

from vibe.core.tools._named_paths import NamedPath, lexical_doubt
from vibe.core.tools._runners import runs_others
from vibe.core.tools._shell import parse_line
from vibe.core.tools.bash_policy import reads_only_its_input

RUNNERS = tuple(
    tuple(words.split())
    for words in (
        "npm test", "npm t", "yarn test", "pnpm test", "cargo test", "cargo build", "cargo check", "cargo clippy", "go test",
        "go build", "go vet", "pytest", "python -m pytest", "python3 -m pytest", "python -m unittest",
        "python3 -m unittest", "uv run pytest", "ruff check", "mypy", "pyright", "tsc", "jest", "vitest", "eslint", "tox",
        "nox",
    )
)  # fmt: skip
"""They run the project's own code, which what follows them only chooses from."""

STEERING = re.compile(
    r"-{1,2}(?:exec|toolexec|vettool|ldflags|gcflags|o|out\w*|output\w*|config\w*|c|C|p|prefix|root\w*|manifest-path|"
    r"target-dir|script-shell|node-options|require|r|rulesdir|plugin\w*|resolve-plugins\w*|project|python\w*|fix\w*|"
    r"override-ini|import-mode|confcutdir|basetemp|junit\w*|workdir|global\w*|with\w*|env-file|directory|setup\w*|"
    r"installpkg|watch\w*)(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
"""Options that change what a runner runs or where it writes: with one, only the exact words are remembered."""


SETTING = re.compile(r"\w+\+?=")


def covered_commands(line: str) -> tuple[str, ...] | None:
    """Every command of a line as a lasting yes covers it; None if running it may do more than its words say.

    A runner of a project's own tests and checks (``npm test``, ``cargo test``) stands for itself and whatever follows
    it, written ``npm test *``, as long as what follows only chooses what is tested; everything else for its exact words.
    Commands that read nothing but what is piped into them need no yes and are left out.
    """
    parsed = parse_line(line)
    commands = parsed.commands
    if parsed.surprises or parsed.inputs or not commands:
        return None
    if any(word.text is None or word.pattern for command in commands for word in command.words):
        return None
    if any(runs_others(command.argv) for command in commands):
        return None
    kept = tuple(_covered(command.argv) for command in commands if not reads_only_its_input(command))
    return kept or tuple(shlex.join(command.argv) for command in commands)


def _covered(argv: tuple[str, ...]) -> str:
    runner = next((runner for runner in RUNNERS if argv[: len(runner)] == runner), None)
    if runner is not None and all(_only_chooses(word) for word in argv[len(runner) :]):
        return f"{shlex.join(runner)} *"
    return shlex.join(argv)


def _only_chooses(word: str) -> bool:
    """Whether a word after a runner neither changes what runs nor leads elsewhere."""
    return not STEERING.fullmatch(word) and not SETTING.match(word) and not lexical_doubt(NamedPath(text=word))
