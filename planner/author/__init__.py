"""Plans and revisions written by a model."""

from __future__ import annotations
