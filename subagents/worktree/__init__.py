"""Attempts that each work in a git worktree of their own, which the host merges."""
