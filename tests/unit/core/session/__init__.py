"""Tests of saved conversations."""

from __future__ import annotations
