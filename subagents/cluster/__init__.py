"""Places on the workers of a Dask cluster. Only these modules know Dask."""
