"""The shell: judges what a command line may do, and runs it confined; it knows no agents."""

from __future__ import annotations
