from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.shell_lab import ShellLab
from vibe.shell.policy.project_checks import CHECKS, covered_commands

CHOOSES = (
    "pytest", "pytest -q", "pytest -xvs tests/unit/test_a.py", "pytest -k 'a and not b' --lf", "pytest 'tests/a.py::test_b[1-2]'",
    "pytest -n 4 --maxfail=1", "pytest -m slow --durations 5 -ra", "python -m pytest -q tests", "uv run pytest -x", "npm test",
    "npm test src/a.test.js", "npm test --silent", "yarn test a", "cargo test", "cargo test -p core parser::", "cargo build --release",
    "cargo test -- --nocapture --test-threads=1", "cargo clippy --all-targets -- -D warnings", "go test ./...",
    "go test -run '^TestA$' -count=1 ./pkg", "go test -v -race -timeout 30s ./...", "go vet ./...", "go build ./...",
    "python -m unittest -v tests.test_a", "python3 -m unittest discover -s tests", "ruff check", "ruff check --select E,F src",
    "ruff check --output-format=concise .", "mypy src", "mypy --strict -p vibe", "pyright src", "tsc --noEmit", "jest -t 'adds up' src",
    "jest --runInBand --ci", "vitest run src/a.test.ts", "eslint src --ext .ts,.tsx --max-warnings 0", "tox -e py311,lint", "tox",
    "nox -s tests", "nox -l",
)  # fmt: skip

STEERS = (
    "pytest @args", "pytest -p pwn", "pytest -ppwn", "pytest -c evil.ini", "pytest -o addopts=-ppwn", "pytest --log-file=a.txt",
    "pytest --log-file a.txt", "pytest --junitxml=src/a.py", "pytest --junit-xml=src/a.py", "pytest --basetemp=src",
    "pytest --rootdir=evil", "pytest --confcutdir=evil", "pytest --override-ini=x=y", "pytest -W error::pwn.X", "pytest --pastebin=all",
    "pytest --debug=a.txt", "pytest -q @args", "pytest -k x @args", "pytest --pyargs os", "pytest --import-mode=importlib",
    "pytest --cov-report=html:src", "pytest --cov-config=evil", "pytest --result-log=a.txt", "pytest --report-log=a.txt",
    "pytest --trace", "pytest --pdbcls=pwn:X", "pytest .git/a.py", "pytest .vibe/tools", "pytest ../a.py", "pytest /tmp/a.py",
    "python -m pytest --log-file=a.txt", "python3 -m pytest -p pwn", "uv run pytest --log-file=a.txt", "uv run pytest @args",
    "python -m unittest discover -t .. -s tests", "npm test --shell=./pwn.sh", "npm test --shell ./pwn.sh", "npm test --script-shell=./pwn.sh",
    "npm test --prefix evil", "npm test --prefix=evil", "npm test -C evil", "npm test --userconfig=rc", "npm test --node-options=-r./x",
    "npm test --scripts-prepend-node-path", "npm t --shell=./pwn.sh", "npm test -- --config=evil.js", "npm test -- -c evil.js",
    "npm test -w ../x", "yarn test --cwd evil", "yarn test --config evil", "pnpm test --dir evil", "pnpm test --reporter=./x.js",
    "cargo test --config x.toml", "cargo test --manifest-path=evil/Cargo.toml", "cargo test --target-dir=src", "cargo test --target=evil.json",
    "cargo build --out-dir=src", "cargo build --artifact-dir src", "cargo build -Zunstable-options", "cargo build --timings",
    "cargo clippy --fix", "cargo clippy -- -Clinker=./pwn.sh", "cargo test -- --logfile=a.txt", "cargo test -- --logfile a.txt",
    "cargo check -C evil", "go test -overlay=x.json", "go test --overlay=x.json", "go test -overlay x.json", "go test -exec=./pwn.sh",
    "go test -toolexec ./pwn.sh", "go test -coverprofile=a.txt", "go test -o src/a", "go test -outputdir=src", "go test -modfile=evil.mod",
    "go test -args -x", "go test -C evil", "go test -ldflags=-extld=./pwn.sh", "go test -trace=a.txt", "go test -vet=off -test.cpuprofile=a",
    "go build -o src/a.py", "go build -gcflags=-x", "go build -pkgdir=evil", "go vet -vettool=./pwn.sh", "go test evil.com/x@latest",
    "ruff check --fix", "ruff check --fix-only", "ruff check --unsafe-fixes --fix .", "ruff check -o a.txt", "ruff check -oa.txt",
    "ruff check --output-file=a.txt", "ruff check --config evil.toml", "ruff check --config=x=1", "ruff check --add-noqa",
    "ruff check --cache-dir=src", "ruff check @args", "ruff check --watch", "mypy @args", "mypy --config-file=evil.ini",
    "mypy --python-executable=./pwn.sh", "mypy --junit-xml=a.txt", "mypy --html-report=src", "mypy --cache-dir=src",
    "mypy --install-types --non-interactive", "mypy --shadow-file a.py b.py", "pyright --project evil", "pyright -p evil",
    "pyright --pythonpath ./pwn.sh", "pyright --createstub os", "pyright --writebaseline", "tsc a.ts", "tsc @args", "tsc -p evil", "tsc --outDir src",
    "tsc --build", "tsc --init", "tsc a.ts --outFile b.js", "jest --runner=./pwn.js", "jest --config=evil", "jest --globalSetup=./x.js",
    "jest --outputFile=a.txt", "jest -u", "jest --rootDir=evil", "jest --transform=x", "jest --reporters=./x.js", "jest --testEnvironment=./x.js",
    "jest --coverageDirectory=src", "jest --watch", "jest --preset ./x", "jest --resolver=./x.js", "jest --filter=./x.js", "jest -c evil",
    "vitest init browser", "vitest run --config evil", "vitest run -r evil", "vitest run --outputFile=a.txt", "vitest run --environment=./x",
    "vitest run --reporter=./x.js", "vitest run --globalSetup ./x.js", "vitest run -u", "vitest run --coverage.reportsDirectory=src",
    "eslint -f ./x.js", "eslint --format=./x.js", "eslint -c evil.js", "eslint --fix", "eslint -o a.txt", "eslint --output-file a.txt",
    "eslint --rulesdir evil", "eslint --parser ./x.js", "eslint --plugin x", "eslint --resolve-plugins-relative-to=evil", "eslint --init",
    "eslint --cache-location=src", "eslint --config=evil.js", "tox exec -e py -- pwn", "tox -c evil.ini", "tox -x testenv.commands=pwn",
    "tox --override=testenv.commands=pwn", "tox --workdir=src", "tox --root evil", "tox --installpkg evil", "tox devenv src", "tox quickstart",
    "tox -e py -- pwn", "tox --result-json=a.txt", "tox -e ../x", "nox -f evil.py", "nox --noxfile=evil.py", "nox -f=evil.py", "nox --envdir=src",
    "nox --report=a.txt", "nox -s tests -- pwn", "nox --force-python ./pwn.sh", "nox --default-venv-backend=x", "nox -db ./pwn",
)  # fmt: skip

RUN = (
    "pytest @args", "pytest -p pwn test_ok.py", "pytest --log-file=a.txt test_ok.py",
    "pytest --basetemp=src test_ok.py",
    "python -m pytest --log-file=src/a.py test_ok.py", "npm test --script-shell=./pwn.sh",
    "npm test --prefix evil", "npm test -C evil", "ruff check --fix bad.py", "ruff check -o a.txt bad.py", "ruff check --add-noqa bad.py",
    "ruff check --cache-dir=new --isolated bad.py", "ruff check @fixes",
)  # fmt: skip


@pytest.mark.parametrize("line", CHOOSES)
def test_a_yes_to_a_check_covers_what_only_chooses(line: str) -> None:
    (covered,) = covered_commands(line) or ("",)
    assert covered.endswith(" *")
    assert shlex.split(line)[: len(covered.split()) - 1] == covered.split()[:-1]


def test_a_yes_to_a_check_does_not_cover_what_steers_it() -> None:
    covered = {line: covered_commands(line) for line in (*STEERS, *RUN)}
    assert covered == {line: (shlex.join(shlex.split(line)),) for line in covered}


def test_every_check_has_lines_of_both_kinds() -> None:
    named = {words.replace("python3", "python") for words in CHECKS} - {"npm t"}
    assert not {name for name in named if not any(line.startswith(name) for line in STEERS)}
    assert {name for name in named if not any(line.startswith(name) for line in CHOOSES)} == {
        "cargo check",
        "pnpm test",
    }


@pytest.mark.parametrize("line", RUN)
def test_what_a_yes_does_not_cover_would_have_done_something(line: str, template: ShellLab, tmp_path: Path) -> None:
    lab = ShellLab(tmp_path / "lab")
    program = line.split(maxsplit=1)[0]
    if shutil.which(program, path=lab.environ()["PATH"]) is None and "EVERY_PROGRAM" not in os.environ:
        pytest.skip(f"{program} is not installed")
    shell_lab.copy(template, lab.base)
    texts = {
        "args": "--log-file=a.txt\ntest_ok.py\n", "fixes": "--fix\nbad.py\n", "evil.ini": "[pytest]\naddopts = -p pwn\n", "test_ok.py": "def test(tmp_path): pass\n",
        "bad.py": "import os\n", "package.json": '{"scripts": {"test": "true"}}', "evil/package.json": '{"scripts": {"test": "pwn"}}',
    }  # fmt: skip
    for name, text in texts.items():
        (lab.work / name).write_text(text)
    before = _without_caches(lab)
    printed = lab.run(f"PYTHONPATH=. {line}" if program == "pytest" else line)
    assert _without_caches(lab) != before, printed


def _without_caches(lab: ShellLab) -> dict[str, object]:
    caches = ("__pycache__", ".pytest_cache", ".ruff_cache", ".npm", ".config")
    return {name: what for name, what in lab.state().items() if not any(cache in name for cache in caches)}
