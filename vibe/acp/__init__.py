"""The agent for editors: conversations over the Agent Client Protocol, by standard input and output."""

from __future__ import annotations
