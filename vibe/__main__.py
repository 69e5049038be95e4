"""Runs the ``vibe`` command with this interpreter: ``python -m vibe``."""

from __future__ import annotations

import sys

from vibe.cli.main import main

sys.exit(main())
