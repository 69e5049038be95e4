"""Running git so that nothing runs which a repository, or whoever can write to it, chose."""

from __future__ import annotations
