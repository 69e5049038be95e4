"""The slash commands, a module a subject: ``run`` carries one out, ``choices`` lists words that may follow it."""

from __future__ import annotations
