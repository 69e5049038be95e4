"""One conversation: a prompt, answered."""

from __future__ import annotations
