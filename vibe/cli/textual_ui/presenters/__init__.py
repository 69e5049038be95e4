"""Presenters, each of which keeps one widget up to date with the view."""
