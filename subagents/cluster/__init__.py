"""Places on the workers of a Dask cluster; the only modules that know Dask."""

from __future__ import annotations
