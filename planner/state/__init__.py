"""State of a plan: commands are decided into facts, facts are folded into the state; pure, without a clock."""

from __future__ import annotations
