"""Tests of saved conversations."""
