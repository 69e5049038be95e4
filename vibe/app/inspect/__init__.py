"""Questions about a set-up, answered without running anything."""
