"""Tests of models, backends and what wraps them."""

from __future__ import annotations
