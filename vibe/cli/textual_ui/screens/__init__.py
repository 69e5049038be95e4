"""Screens that open over the chat."""

from __future__ import annotations
