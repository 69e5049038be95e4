"""Reports on plans as text, graphs and pages."""

from __future__ import annotations
