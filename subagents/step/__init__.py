"""The work of a step: an agent or a command, then its checks."""
