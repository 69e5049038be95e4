"""Places on the workers of a Dask cluster. Only these modules know Dask."""

from __future__ import annotations

import warnings

from dask import config

# Dask decides about its log when it is first imported. Without this it says everything, on standard error.
config.set(logging={"version": 1, "incremental": True})
# The first is said if there is no internet; whether a worker's version fits is asked when a step is sent to it.
warnings.filterwarnings("ignore", "Couldn't detect a suitable IP address|Mismatched versions found")
