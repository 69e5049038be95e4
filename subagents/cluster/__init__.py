"""Places on the workers of a Dask cluster. Only these modules know Dask."""

from __future__ import annotations
