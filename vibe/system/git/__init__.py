"""Running git without the programs that a repository, or a user who can write to it, chose."""

from __future__ import annotations
