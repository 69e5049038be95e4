"""Tests of ipc: bytes and files."""
