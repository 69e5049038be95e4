"""Tests of models, backends and their wrappers."""
