"""Tests of ipc with real sockets and processes."""
