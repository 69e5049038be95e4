"""The slash commands of a conversation, whatever front end it is held in."""

from __future__ import annotations
