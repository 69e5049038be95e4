"""Skills: instructions in a folder of their own that an agent loads when a task calls for them."""

from __future__ import annotations
