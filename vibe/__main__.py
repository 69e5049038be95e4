"""``python -m vibe``: the ``vibe`` command of this interpreter."""

from __future__ import annotations

import sys

from vibe.cli.main import main

sys.exit(main())
