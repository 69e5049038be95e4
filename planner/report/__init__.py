"""Plans and what they came to, as text, graphs and pages."""

from __future__ import annotations
