"""Tests of several packages together, with real sockets and processes."""
