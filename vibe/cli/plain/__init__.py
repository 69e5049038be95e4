"""The chat line by line, for screen readers and for terminals that can't draw a screen."""

from __future__ import annotations
