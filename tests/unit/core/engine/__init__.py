"""Tests of the agent loop and its turns."""

from __future__ import annotations
