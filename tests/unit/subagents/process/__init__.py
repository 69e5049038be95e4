"""Tests of steps in processes of their own."""

from __future__ import annotations
