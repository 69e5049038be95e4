"""Backends, one module per kind of provider. The factory imports each when it is first used."""
