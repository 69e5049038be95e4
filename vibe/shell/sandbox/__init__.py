"""Confining the programs a model runs: what they may read, write and reach."""

from __future__ import annotations
