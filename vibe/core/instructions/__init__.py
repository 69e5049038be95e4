"""Instructions an agent gets about its user, project and workspace."""

from __future__ import annotations
