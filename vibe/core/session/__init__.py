"""Saved conversations: transcripts, snapshots of files, rewind, and turns to write in a folder."""
