"""Presenters, each of which keeps one widget up to date with the view."""

from __future__ import annotations
