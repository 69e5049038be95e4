"""How a plan stands: facts are folded into its state, commands are decided into facts; pure, without a clock."""

from __future__ import annotations
