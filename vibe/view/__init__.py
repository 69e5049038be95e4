"""The view of all that was announced: events in, runs, plans, agents and requests out; no clock, no I/O."""

from __future__ import annotations
