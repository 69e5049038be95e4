"""The subcommands of ``vibe``, one per module."""
