"""Programs that run a project's own tests and checks, with their harmless options; the scope of lasting approvals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType

from vibe.shell.policy.option_parsing import parse_options
from vibe.shell.policy.option_specs import Reader, options_in
from vibe.shell.policy.parser import parse_line
from vibe.shell.policy.paths import NamedPath, lexical_doubt
from vibe.shell.policy.verdict import reads_only_its_input
from vibe.shell.policy.wrappers import runs_others
from vibe.shell.sandbox.secret_names import is_control

PLAIN = re.compile(r"[\w.*/][\w.*/:,\[\]()+ <>=!'\"-]*")
"""A word that names tests, files or what is looked for: no file of arguments (``@FILE``), nothing for a shell."""

SETTING = re.compile(r"\w+\+?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The words that may follow a check's name: options, others (any plain ones, or ``words``), options after ``--``.

    ``one_dash``: long options may have a single dash.
    """

    options: Reader
    words: frozenset[str] | None = None
    after: Reader | None = None
    one_dash: bool = False


def _check(row: str, *, words: str | None = None, after: str | None = None, one_dash: bool = False) -> Check:
    return Check(
        options=Reader(options=options_in(row)),
        words=None if words is None else frozenset(words.split()),
        after=None if after is None else Reader(options=options_in(after)),
        one_dash=one_dash,
    )


NPM = _check("-s --silent --if-present --workspaces", after="")
SCRIPT = _check("", after="")
PYTEST = _check(
    "-qvxsl -k= -m= -r= -n= --lf --ff --nf --sw --last-failed --failed-first --new-first --stepwise --exitfirst "
    "--maxfail= --tb= --durations= --durations-min= --co --collect-only --no-header --no-summary --strict-markers "
    "--strict-config --color= --timeout= --deselect= --ignore= --ignore-glob= --showlocals --verbose --quiet "
    "--disable-warnings --runxfail --capture= --no-cov --version --markers --fixtures --setup-plan --full-trace"
)
UNITTEST = _check("-vqfb -k= -s= -p= --verbose --quiet --failfast --buffer --locals")
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

CHECKS: Mapping[tuple[str, ...], Check] = MappingProxyType({
    ("npm", "test"): NPM,
    ("npm", "t"): NPM,
    ("yarn", "test"): SCRIPT,
    ("pnpm", "test"): SCRIPT,
    ("cargo", "test"): _check(f"{CARGO} --doc --no-run --no-fail-fast", after=LIBTEST),
    ("cargo", "build"): _check(CARGO),
    ("cargo", "check"): _check(CARGO),
    ("cargo", "clippy"): _check(f"{CARGO} --no-deps", after="-A= -D= -W="),
    ("go", "test"): _check(GO, one_dash=True),
    ("go", "build"): _check(GO, one_dash=True),
    ("go", "vet"): _check(GO, one_dash=True),
    ("pytest",): PYTEST,
    ("python", "-m", "pytest"): PYTEST,
    ("python3", "-m", "pytest"): PYTEST,
    ("uv", "run", "pytest"): PYTEST,
    ("python", "-m", "unittest"): UNITTEST,
    ("python3", "-m", "unittest"): UNITTEST,
    ("ruff", "check"): _check(
        "-qvsne --select= --ignore= --extend-select= --extend-ignore= --output-format= --statistics --no-cache "
        "--preview --diff --no-fix --show-files --show-settings --exit-zero --target-version= --line-length= "
        "--exclude= --quiet --verbose --silent"
    ),
    ("mypy",): _check(
        "-v -p= -m= --strict --ignore-missing-imports --show-error-codes --hide-error-codes --pretty --no-pretty "
        "--no-error-summary --no-incremental --python-version= --platform= --namespace-packages "
        "--explicit-package-bases "
        "--follow-imports= --check-untyped-defs --disallow-untyped-defs --disallow-incomplete-defs "
        "--warn-unused-ignores "
        "--warn-return-any --warn-unreachable --show-column-numbers --show-error-context --show-error-end "
        "--no-color-output --exclude= --package= --module= --verbose --version"
    ),
    ("pyright",): _check(
        "--stats --outputjson --warnings --level= --pythonversion= --pythonplatform= --verbose --version"
    ),
    ("tsc",): _check("-v --noEmit --pretty --strict --skipLibCheck --listFiles --showConfig --version", words=""),
    ("jest",): _check(
        "-bioef -t= -w= --testNamePattern= --testPathPattern= --testPathPatterns= --verbose --silent --bail? --ci "
        "--runInBand --coverage --no-coverage --colors --no-color --onlyChanged --onlyFailures --passWithNoTests "
        "--maxWorkers= --listTests --findRelatedTests --detectOpenHandles --forceExit --expand --json --no-cache "
        "--runTestsByPath --lastCommit --showSeed"
    ),
    ("vitest", "run"): _check(
        "-t= --testNamePattern= --no-color --bail= --silent --coverage --passWithNoTests --hideSkippedTests "
        "--allowOnly --maxWorkers= --minWorkers= --retry= --testTimeout="
    ),
    ("eslint",): _check(
        "-v --quiet --max-warnings= --ext= --color --no-color --no-inline-config --report-unused-disable-directives "
        "--no-error-on-unmatched-pattern --no-warn-ignored --ignore-pattern= --version"
    ),
    ("tox",): _check("-qv -e= --skip-missing-interpreters --quiet --verbose", words="run r run-parallel p list l"),
    ("nox",): _check(
        "-lvrR -s= -k= -t= -p= --list --sessions= --session= --keywords= --tags= --pythons= --verbose --no-color "
        "--reuse-existing-virtualenvs --no-install --stop-on-first-error"
    ),
})  # fmt: skip
"""By the words they begin with. An option that is not here may run, read or write something else: a yes to it covers
itself."""


def only_chooses(words: Sequence[str], check: Check) -> bool:
    """Return whether what follows a check's name neither changes what runs nor leads elsewhere."""
    if any(word.startswith("@") or SETTING.match(word) for word in words):
        return False
    cut = words.index("--") if "--" in words else len(words)
    own, passed_on = words[:cut], words[cut + 1 :]
    if check.one_dash:
        own = [f"-{word}" if re.match(r"-\w{2}", word) else word for word in own]
    return _allowed(own, check.options, check.words) and (
        _allowed(passed_on, check.after, None) if check.after else cut == len(words)
    )


def _allowed(words: Sequence[str], row: Reader, operands: frozenset[str] | None) -> bool:
    parsed = parse_options(words, row)
    if isinstance(parsed, str):
        return False
    if operands is not None and not operands.issuperset(parsed.operands):
        return False
    return all(map(PLAIN.fullmatch, parsed.operands)) and not any(
        map(_leads_elsewhere, (*parsed.operands, *parsed.values))
    )


def _leads_elsewhere(word: str) -> bool:
    return bool(lexical_doubt(NamedPath(text=word))) or is_control(PurePosixPath(word))


def covered_commands(line: str) -> tuple[str, ...] | None:
    """Every command of a line as a lasting yes covers it; None if running it may do more than its words say.

    A runner of a project's own tests and checks (``npm test``, ``cargo test``) stands for itself with whatever options
    and words only choose what is tested, written ``npm test *``; everything else for its exact words. Commands that
    read nothing but what is piped into them need no yes and are left out.
    """
    parsed = parse_line(line)
    commands = parsed.commands
    if parsed.surprises or parsed.inputs or not parsed.plain or not commands:
        return None
    if any(word.text is None or word.pattern for command in commands for word in command.words):
        return None
    if any(runs_others(command.argv) for command in commands):
        return None
    kept = tuple(_covered(command.argv) for command in commands if not reads_only_its_input(command))
    return kept or tuple(shlex.join(command.argv) for command in commands)


def _covered(argv: tuple[str, ...]) -> str:
    for length in (3, 2, 1):
        check = CHECKS.get(argv[:length])
        if check is not None and only_chooses(argv[length:], check):
            return f"{shlex.join(argv[:length])} *"
    return shlex.join(argv)
