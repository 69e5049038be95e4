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
        told="AssertionError: 1 != 2",
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
    Case(
        name="unittest that can't import",
        printed=(
            "E\n====\nERROR: test_x (unittest.loader._FailedTest.test_x)\n----\n"
            "ImportError: Failed to import test module: test_x\nTraceback (most recent call last):\n"
            '  File "/w/loader.py", line 16, in find\n    raise ValueError("error: x")\nModuleNotFoundError: shop\n'
        ),
        told="ImportError: Failed to import test module: test_x",
    ),
    Case(
        name="pytest with names",
        printed=(
            "test_x.py::test_a FAILED      [ 50%]\ntest_x.py::test_error PASSED  [100%]\n=== FAILURES ===\n"
            '    log("error: no")\n>   assert x == 9\nE   assert 8 == 9\n\ntest_x.py:8: AssertionError\n'
        ),
        told="E   assert 8 == 9",
    ),
    Case(
        name="Python that quotes an error",
        printed='Traceback (most recent call last):\n  File "x.py", line 3\n    raise E("error: bad")\nshop.E: error: bad\n',
        told="shop.E: error: bad",
    ),
    Case(name="go", printed="--- FAIL: TestX (0.00s)\n    x_test.go:8: got 1\nFAIL", told="x_test.go:8: got 1"),
    Case(
        name="go that does not build",
        printed="# x.com/shop\n./cart.go:7:9: undefined: rate\nFAIL\tx.com/shop [build failed]\nFAIL",
        told="./cart.go:7:9: undefined: rate",
    ),
    Case(
        name="go that panics",
        printed="--- FAIL: TestX (0.00s)\npanic: runtime error: index out of range\ngoroutine 6 [running]:",
        told="panic: runtime error: index out of range",
    ),
    Case(
        name="cargo test",
        printed=(
            "test tests::adds ... ok\ntest tests::rate ... FAILED\n\nfailures:\n\n---- tests::rate stdout ----\n"
            "thread 'tests::rate' panicked at src/lib.rs:14:9:\nassertion `left == right` failed\n  left: 9\n"
        ),
        told="assertion `left == right` failed",
    ),
    Case(
        name="jest",
        printed=(
            "FAIL src/cart.test.js\n  ✕ takes the rate off (3 ms)\n  ● Cart takes the rate off\n\n"
            "    expect(received).toBe(expected)\n\n    Expected: 9\n    Received: 9.9\n"
        ),
        told="expect(received).toBe(expected)",
    ),
    Case(
        name="vitest",
        printed="   cart.test.ts (2 tests | 1 failed) 5ms\n   x rate 3ms\n     → expected 9.9 to be 9\n FAIL  cart.test.ts",
        told="→ expected 9.9 to be 9",
    ),
    Case(
        name="mocha",
        printed=(
            "  Cart\n    1) rate\n\n  1 failing\n\n  1) Cart\n       rate:\n\n"
            "      AssertionError [ERR_ASSERTION]: Expected values to be equal:\n\n      at Context.<anonymous> (x.js:7:12)\n"
        ),
        told="AssertionError [ERR_ASSERTION]: Expected values to be equal:",
    ),
    Case(
        name="ruff",
        printed="F401 [*] `os` imported but unused\n --> a.py:1:8\n\nFound 1 error.\n[*] 1 fixable with `--fix`.",
        told="F401 [*] `os` imported but unused",
    ),
    Case(
        name="eslint",
        printed="\n/w/cart.js\n  3:7  error  'x' is never used  no-unused-vars\n\n✖ 1 problem (1 error, 0 warnings)\n",
        told="3:7  error  'x' is never used  no-unused-vars",
    ),
    Case(
        name="gradle",
        printed=(
            "> Task :test FAILED\n\nCartTest > rate() FAILED\n    org.opentest4j.AssertionFailedError at CartTest.java:14\n"
        ),
        told="org.opentest4j.AssertionFailedError at CartTest.java:14",
    ),
    Case(
        name="a warning before the failure",
        printed="/lib/plugin.py:306: PytestDeprecationWarning: an option is unset.\nFAILED test_x.py::test_a\n1 failed",
        told="FAILED test_x.py::test_a",
    ),
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
