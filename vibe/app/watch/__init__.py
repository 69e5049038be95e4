"""The runs of this machine as a program beside them sees them: found, followed and answered."""

from __future__ import annotations
