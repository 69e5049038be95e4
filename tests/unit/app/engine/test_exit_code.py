from __future__ import annotations

import pytest

from vibe.app.engine.result_record import RunRecord, exit_code_of
from vibe.core.messages import Outcome, Usage


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
    record = RunRecord(
        outcome=outcome,
        exit_code=exit_code_of(outcome, unserved=unserved),
        session_id="s",
        result="",
        duration_s=0.0,
        usage=Usage(),
        cost_usd=None,
    )

    assert record.after_signal(signal_exit).exit_code == code
