"""What every run is made of: model, tools, sandbox, events, signals."""

from __future__ import annotations
