"""Agent profiles: who an agent is and what it may do without asking."""

from __future__ import annotations
