"""Conversations: one session of an agent, over many prompts."""

from __future__ import annotations
