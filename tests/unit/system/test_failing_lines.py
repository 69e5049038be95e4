from __future__ import annotations

from dataclasses import dataclass

import pytest

from vibe.system.failing_lines import PART_CHARACTERS, failing_line, failing_part


@dataclass(frozen=True, kw_only=True)
class Case:
    """The output of a failed program, and the line of it that names the reason."""

    name: str
    printed: str
    told: str


CASES = (
    Case(
        name="node",
        printed="TAP version 13\nok 1 - an error is thrown\nnot ok 2 - subs\n  error: 'no'\n# fail 1\n# duration_ms 318",
        told="not ok 2 - subs",
    ),
    Case(
        name="pytest",
        printed=(
            "=== test session starts ===\ntest_a.py .F\n\n=== FAILURES ===\n___ test_x ___\n>       assert f() == 2\n"
            "E       assert 1 == 2\n\ntest_a.py:5: AssertionError\nFAILED test_a.py::test_x\n=== 1 failed in 0.01s ==="
        ),
        told="E       assert 1 == 2",
    ),
    Case(
        name="unittest",
        printed="F.\n====\nFAIL: test_x (t.T)\n----\nTraceback (most recent call last):\nAssertionError: 1 != 2\n\nFAILED",
        told="FAIL: test_x (t.T)",
    ),
    Case(
        name="tsc",
        printed="src/a.ts(3,4): error TS2322: Type 'x'\nFound 1 error",
        told="src/a.ts(3,4): error TS2322: Type 'x'",
    ),
    Case(
        name="cargo",
        printed="   Compiling x\nerror[E0308]: mismatched types\n --> a.rs",
        told="error[E0308]: mismatched types",
    ),
    Case(
        name="gcc under make",
        printed="gcc -Werror -o x x.c\nx.c:3:1: error: expected ';'\nmake: *** [x] Error 1",
        told="x.c:3:1: error: expected ';'",
    ),
    Case(
        name="Python",
        printed='starting\nTraceback (most recent call last):\n  File "a", line 1\nModuleNotFoundError: No module named x',
        told="ModuleNotFoundError: No module named x",
    ),
    Case(name="go", printed="--- FAIL: TestX (0.00s)\n    x_test.go:8: got 1\nFAIL", told="--- FAIL: TestX (0.00s)"),
    Case(name="shell", printed="bash: line 1: foo: command not found", told="bash: line 1: foo: command not found"),
    Case(name="nothing that tells", printed="0 errors\nFailed: 0\nall is done\n", told="all is done"),
    Case(name="nothing", printed="\n\n", told=""),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_first_telling_line_is_found(case: Case) -> None:
    assert failing_line(case.printed) == case.told


def test_the_part_begins_just_before_that_line_and_is_bounded() -> None:
    printed = "\n".join([*(f"ok {n}" for n in range(500)), "not ok 500 - it", *("x" * 1_000 for _ in range(500))])

    part = failing_part(printed)

    assert part.splitlines()[:2] == ["ok 499", "not ok 500 - it"]
    assert len(part) <= PART_CHARACTERS
