"""Attempts on other machines: their trees, files and messages, whatever cluster lends the places."""

from __future__ import annotations
