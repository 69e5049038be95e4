"""Fakes: implementations of the project's own ports, and servers and programs to test against."""
