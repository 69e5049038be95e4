"""The parts of ``/plan``: proposing and running, acting on a plan, looking at plans."""

from __future__ import annotations
