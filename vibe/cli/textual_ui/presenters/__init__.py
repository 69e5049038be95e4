"""Presenters: each keeps one widget in step with the view."""

from __future__ import annotations
