"""The slash commands of a conversation, shared by all front ends."""

from __future__ import annotations
