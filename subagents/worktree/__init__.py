"""Attempts in a git worktree of their own, merged by the host."""

from __future__ import annotations
