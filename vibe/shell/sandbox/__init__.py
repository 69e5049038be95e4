"""Confining the programs a model runs: what they may read, write and reach."""
