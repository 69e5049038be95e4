"""Runs git without any program chosen by a repository, or by a user who can write to it."""
