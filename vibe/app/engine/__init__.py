"""The basis of every run: settings, models, tools, sandbox, events and requests."""

from __future__ import annotations
