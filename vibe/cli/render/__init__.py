"""What happens and what came of it, as text and as JSON."""

from __future__ import annotations
