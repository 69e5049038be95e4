"""The ground under everything else: files, locks, processes and git, each done in one way."""

from __future__ import annotations
