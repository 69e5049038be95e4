"""Tests of models, backends and their wrappers."""

from __future__ import annotations
