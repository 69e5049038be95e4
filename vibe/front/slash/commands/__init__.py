"""The slash commands, a module a subject: ``run_NAME`` carries one out, ``NAME_picker`` lists what may follow it."""

from __future__ import annotations
