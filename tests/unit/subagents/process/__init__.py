"""Tests of steps in processes of their own."""
