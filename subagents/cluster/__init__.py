"""Places on the workers of a Dask cluster. Only these modules know Dask."""

from __future__ import annotations

import logging

from dask import config

# Dask decides about its log when it is first imported: without this it writes to standard error, which may be a
# program's own, and says everything.
config.set(logging={"version": 1, "incremental": True})
logging.getLogger("distributed").addHandler(logging.NullHandler())
