"""What a command line may do, and how it is run confined; of agents nothing is known here."""

from __future__ import annotations
