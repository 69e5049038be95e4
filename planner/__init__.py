"""What to do and in what order: plans, the DAG, the scheduler and its dispatcher."""

from __future__ import annotations
