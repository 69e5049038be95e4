"""System prompts, as Markdown."""

from __future__ import annotations
