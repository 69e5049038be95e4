"""Tests of the chat log."""
