from __future__ import annotations

import pytest

from vibe.app.engine.result_record import exit_code_of
from vibe.core.outcome import Outcome


@pytest.mark.parametrize(
    ("outcome", "signal_exit", "unserved", "code"),
    [
        (Outcome.COMPLETED, None, False, 0),
        (Outcome.COMPLETED, 143, False, 0),
        (Outcome.FAILED, 143, False, 1),
        (Outcome.INTERRUPTED, None, False, 130),
        (Outcome.INTERRUPTED, 143, False, 143),
        (Outcome.INTERRUPTED, 143, True, 3),
        (Outcome.COMPLETED, None, True, 3),
    ],
)
def test_a_record_that_is_not_whole_goes_before_a_signal_and_a_signal_stands_for_an_interruption_only(
    outcome: Outcome, signal_exit: int | None, code: int, *, unserved: bool
) -> None:
    assert exit_code_of(outcome, signal_exit, unserved=unserved) == code
