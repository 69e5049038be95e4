"""What an agent is told about its user, project and workspace."""

from __future__ import annotations
