"""The tools of agents: their base class, discovery, permissions, and the built-in set."""
