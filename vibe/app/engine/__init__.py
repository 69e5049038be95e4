"""Parts of every run: model, tools, sandbox, events, signals."""

from __future__ import annotations
