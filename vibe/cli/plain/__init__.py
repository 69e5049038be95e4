"""The conversation by lines: for terminals that can't do more, and for screen readers."""

from __future__ import annotations
