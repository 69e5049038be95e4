"""Programs are started by their path, which one place looks up. A bare name would be looked up wherever PATH leads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.project import shown, source_files

STARTERS = frozenset({
    "Popen", "_Git", "call", "check_call", "check_output", "create_subprocess_exec", "open_process", "posix_spawn", "run",
    "run_command", "run_process", "start",
})  # fmt: skip
LOOK_UPS = frozenset({"execlp", "execvp", "execvpe", "popen", "posix_spawnp", "spawnlp", "spawnvp", "system", "which"})
ALLOWED = {
    "vibe/system/git/calls.py: git",  # with the variables of git_environ, in whose PATH no workspace lies
    "vibe/system/programs.py: which",  # the one place
    "vibe/shell/sandbox/_launch.py: execvp",  # replaces itself with a command, confined by then
}


def bare_starts(source: str) -> Iterator[str]:
    """Yield the names of programs started by a bare name, and of functions that look one up."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(name.name == "webbrowser" for name in node.names):
            yield "webbrowser"
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in LOOK_UPS and not isinstance(node.func, ast.Name):
            yield called
        first = node.args[0]
        if called in STARTERS and isinstance(first, ast.List | ast.Tuple) and first.elts:
            program = first.elts[0]
            if isinstance(program, ast.Constant) and "/" not in str(program.value):
                yield str(program.value)


def test_programs_are_started_by_their_path() -> None:
    found = {f"{shown(path)}: {name}" for path in source_files() for name in bare_starts(path.read_text())}

    assert found == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "shutil.which(x)",
        "os.system('less')",
        'subprocess.run(["rg", "--version"])',
        'await open_process(("git", x))',
        'subprocess.Popen(["less", *words])',
    ],
)
def test_a_bare_name_is_found(source: str) -> None:
    assert [*bare_starts(f"async def f(): {source}")]
