"""Tests of the prompt's input."""

from __future__ import annotations
