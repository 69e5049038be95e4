"""Tests of the chat log."""

from __future__ import annotations
