"""Fakes: implementations of the project's own ports, and servers and programs to test against."""

from __future__ import annotations
