"""A run as an observer sees it: events in, steps and totals out; no clock, no terminal."""

from __future__ import annotations
