"""Tests of middleware."""
