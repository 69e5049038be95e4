"""Programs that tests need on the machine they run on."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test because something is missing, or fail it if ``EVERY_PROGRAM`` says that everything is installed."""
    if "EVERY_PROGRAM" in os.environ:
        pytest.fail(f"{reason}, and EVERY_PROGRAM says that nothing is missing here")
    pytest.skip(reason)
