"""Tests of the prompt's input."""
