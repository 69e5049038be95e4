"""Decides what a lasting approval covers. Knows programs that run a project's checks and their harmless options."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

from msgspec import Struct

from vibe.shell.policy.option_parsing import Reader, by_name, parse_options
from vibe.shell.policy.parser import parse_line
from vibe.shell.policy.paths import path_parts
from vibe.shell.policy.verdict import reads_only_its_input
from vibe.shell.policy.words import UNKNOWN_STEP, ShellCommand
from vibe.shell.policy.wrappers import runs_others
from vibe.shell.sandbox.secrets import is_control, is_sensitive

PLAIN = re.compile(r"[\w.*/][\w.*/:,\[\]()+ <>=!'\"-]*")
"""A word that names tests, files or search terms. It is no file of arguments (``@FILE``) and means nothing to a shell.
"""

SETTING = re.compile(r"\w+\+?=")


class Check(Struct, frozen=True):
    """The words that may follow the name of a check.

    Attributes:
        row: The options.
        words: The operands. None allows any plain ones.
        after: The options after ``--``. None doesn't allow ``--``.
        one_dash: Long options may have a single dash.
    """

    row: str
    words: str | None = None
    after: str | None = None
    one_dash: bool = False


PYTEST = Check(
    "-qvxsl -k= -m= -r= -n= --lf --ff --nf --sw --last-failed --failed-first --new-first --stepwise --exitfirst "
    "--maxfail= --tb= --durations= --durations-min= --co --collect-only --no-header --no-summary --strict-markers "
    "--strict-config --color= --timeout= --deselect= --ignore= --ignore-glob= --showlocals --verbose --quiet "
    "--disable-warnings --runxfail --capture= --no-cov --version --markers --fixtures --setup-plan --full-trace"
)
CARGO = (
    "-rqv -p= -j= -F= --package= --lib --bins --bin= --tests --test= --examples --example= --benches --bench= "
    "--all-targets --workspace --all --exclude= --features= --all-features --no-default-features --release --profile= "
    "--jobs= --keep-going --quiet --verbose --color= --message-format= --locked --offline --frozen"
)
LIBTEST = "-q --nocapture --ignored --include-ignored --exact --skip= --show-output --test-threads= --quiet --list"
GO = (
    "-v -a -n -x -p= --v --a --n --x --p= --run= --count= --short --race --cover --timeout= --failfast --parallel= "
    "--cpu= --bench= --benchtime= --benchmem --json --list= --skip= --shuffle= --fullpath --tags="
)

CHECKS = by_name({
    "npm test, npm t": Check("-s --silent --if-present --workspaces", after=""),
    "yarn test, pnpm test": Check("", after=""),
    "cargo test": Check(f"{CARGO} --doc --no-run --no-fail-fast", after=LIBTEST),
    "cargo build, cargo check": Check(CARGO),
    "cargo clippy": Check(f"{CARGO} --no-deps", after="-A= -D= -W="),
    "go test, go build, go vet": Check(GO, one_dash=True),
    "pytest, python -m pytest, python3 -m pytest, uv run pytest": PYTEST,
    "python -m unittest, python3 -m unittest": Check(
        "-bfqv -k= -p= -s= --verbose --quiet --failfast --buffer --locals"
    ),
    "ruff check": Check(
        "-qvsne --select= --ignore= --extend-select= --extend-ignore= --output-format= --statistics --no-cache "
        "--preview --diff --no-fix --show-files --show-settings --exit-zero --target-version= --line-length= "
        "--exclude= --quiet --verbose --silent"
    ),
    "mypy": Check(
        "-v -p= -m= --strict --ignore-missing-imports --show-error-codes --hide-error-codes --pretty --no-pretty "
        "--no-error-summary --no-incremental --python-version= --platform= --namespace-packages --exclude= --package= "
        "--follow-imports= --check-untyped-defs --disallow-untyped-defs --disallow-incomplete-defs "
        "--warn-unused-ignores --warn-return-any --warn-unreachable --show-column-numbers --show-error-context "
        "--explicit-package-bases --show-error-end --no-color-output --module= --verbose --version"
    ),
    "pyright": Check(
        "--stats --outputjson --warnings --level= --pythonversion= --pythonplatform= --verbose --version"
    ),
    "tsc": Check("-v --noEmit --pretty --strict --skipLibCheck --listFiles --showConfig --version", words=""),
    "jest": Check(
        "-bioef -t= -w= --testNamePattern= --testPathPattern= --testPathPatterns= --verbose --silent --bail? --ci "
        "--runInBand --coverage --no-coverage --colors --no-color --onlyChanged --onlyFailures --passWithNoTests "
        "--maxWorkers= --listTests --findRelatedTests --detectOpenHandles --forceExit --expand --json --no-cache "
        "--runTestsByPath --lastCommit --showSeed"
    ),
    "vitest run": Check(
        "-t= --testNamePattern= --no-color --bail= --silent --coverage --passWithNoTests --hideSkippedTests "
        "--allowOnly --maxWorkers= --minWorkers= --retry= --testTimeout="
    ),
    "eslint": Check(
        "-v --quiet --max-warnings= --ext= --color --no-color --no-inline-config --report-unused-disable-directives "
        "--no-error-on-unmatched-pattern --no-warn-ignored --ignore-pattern= --version"
    ),
    "tox": Check("-qv -e= --skip-missing-interpreters --quiet --verbose", words="run r run-parallel p list l"),
    "nox": Check(
        "-lvrR -s= -k= -t= -p= --list --sessions= --session= --keywords= --tags= --pythons= --verbose --no-color "
        "--reuse-existing-virtualenvs --no-install --stop-on-first-error"
    ),
})  # fmt: skip
"""The checks by the words they begin with.

Options that aren't listed may run, read or write something else, so an approval of a line with one covers that line
alone.
"""


def only_chooses(words: Sequence[str], check: Check) -> bool:
    """Return whether the words after a check's name neither change what runs nor name paths elsewhere."""
    if any(word.startswith("@") or SETTING.match(word) for word in words):
        return False
    cut = words.index("--") if "--" in words else len(words)
    own, passed_on = words[:cut], words[cut + 1 :]
    if check.one_dash:
        own = [f"-{word}" if re.match(r"-\w{2}", word) else word for word in own]
    return _allowed(own, check.row, check.words) and (
        cut == len(words) if check.after is None else _allowed(passed_on, check.after, None)
    )


def _allowed(words: Sequence[str], row: str, operands: str | None) -> bool:
    parsed = parse_options(words, Reader(row))
    if isinstance(parsed, str) or (operands is not None and not set(parsed.operands) <= set(operands.split())):
        return False
    return all(map(PLAIN.fullmatch, parsed.operands)) and not any(
        map(_leads_elsewhere, (*parsed.operands, *parsed.values))
    )


def _leads_elsewhere(word: str) -> bool:
    """Return whether a word may name something outside the workspace, a secret, or what decides later runs."""
    leads_out = any(part.startswith(("/", "~")) or ".." in part.split("/") for part in path_parts(word))
    return leads_out or any(is_sensitive(path) or is_control(path) for path in map(PurePosixPath, path_parts(word)))


def covered_commands(line: str, folder: Path = Path("/")) -> tuple[str, ...] | None:
    """Return the commands that a lasting approval of a line covers, or None if it may do more than its words say.

    For a program that runs a project's tests or checks (``npm test``, ``cargo test``), the approval covers any options
    and words that only choose what is tested, written ``npm test *``. For other commands it covers the exact words.
    After a ``cd`` away from ``folder``, in which the line begins, it covers them only there, links followed. Commands
    that read nothing but what is piped into them need no approval, and are left out unless they decide what another one
    is fed. Reads the file system.
    """
    parsed = parse_line(line)
    commands = parsed.commands
    if parsed.surprises or parsed.inputs or not parsed.plain or not commands:
        return None
    if any(word.text is None or word.pattern for command in commands for word in command.words):
        return None
    if any(runs_others(command.argv) or UNKNOWN_STEP in chain(*command.places) for command in commands):
        return None
    filters = [reads_only_its_input(command) for command in commands]
    last_fed = max((at for at, command in enumerate(commands) if command.fed and not filters[at]), default=0)
    return tuple(_covered(one, folder) for at, one in enumerate(commands) if at < last_fed or not filters[at])


def _covered(command: ShellCommand, folder: Path) -> str:
    argv = command.argv
    beginnings = (shlex.join(argv[:length]) for length in (3, 2, 1))
    checks = (one for one in beginnings if one in CHECKS and only_chooses(argv[len(one.split()) :], CHECKS[one]))
    covered = next((f"{check} *" for check in checks), shlex.join(argv))
    places = sorted({os.path.relpath(os.path.realpath(folder.joinpath(*place)), folder) for place in command.places})
    return covered if places == ["."] else f"{covered} [in {' or '.join(places)}]"
