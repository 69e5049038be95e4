"""What a test needs of the machine it runs on."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test for want of something, or fail it where ``EVERY_PROGRAM`` says that all is there."""
    if "EVERY_PROGRAM" in os.environ:
        pytest.fail(f"{reason}, and EVERY_PROGRAM says that nothing is missing here")
    pytest.skip(reason)
