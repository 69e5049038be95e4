"""The basis for everything else: files, locks, processes and git, each with one way of doing things."""
