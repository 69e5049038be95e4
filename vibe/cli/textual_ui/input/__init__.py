"""The prompt: its text, history, completion and what is pasted into it."""

from __future__ import annotations
