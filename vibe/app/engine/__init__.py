"""What every run is built from: settings, models, tools, sandbox, events and requests."""

from __future__ import annotations
