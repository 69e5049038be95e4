"""Attempts that each work in a git worktree of their own, which the host merges."""

from __future__ import annotations
