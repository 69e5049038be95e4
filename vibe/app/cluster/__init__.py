"""The cluster that may do steps of a plan: its address, certificates and services. Dask itself is further down."""
