"""Places on the workers of a Dask cluster. Only these modules know Dask."""

from __future__ import annotations

from dask import config

# Dask decides about its log when it is first imported. Without this it says everything, on standard error.
config.set(logging={"version": 1, "incremental": True})
