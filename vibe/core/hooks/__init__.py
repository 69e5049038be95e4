"""Hooks: commands of the user's and of trusted projects that see, stop and comment on what an agent does."""

from __future__ import annotations
