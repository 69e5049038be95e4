"""Command lines: what they may do, and how they are run confined; of agents nothing is known here."""

from __future__ import annotations
