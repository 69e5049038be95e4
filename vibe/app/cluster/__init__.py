"""The cluster that steps of a plan may be done on: its address, certificates and services; Dask is below."""
