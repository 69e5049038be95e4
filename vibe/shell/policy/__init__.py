"""A command line, judged: what it would read, write and run."""

from __future__ import annotations
