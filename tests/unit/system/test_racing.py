"""Work continues until it is done or something else happens."""

from __future__ import annotations

import pytest
from anyio import Event, sleep_forever

from vibe.system.racing import unless


async def seven() -> int:
    return 7


async def fails() -> None:
    raise LookupError("gone")


async def test_work_that_comes_first_ends_the_wait() -> None:
    assert await unless(sleep_forever, seven) == [7]


async def test_work_is_given_up_when_something_else_happens() -> None:
    happened = Event()
    happened.set()

    assert await unless(happened.wait, sleep_forever) == []


async def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    with pytest.raises(LookupError, match="gone"):
        await unless(sleep_forever, fails)
