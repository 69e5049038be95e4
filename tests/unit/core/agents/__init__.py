"""Agent profiles, their files and their manager."""

from __future__ import annotations
