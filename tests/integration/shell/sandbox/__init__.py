"""The real sandboxes, with real programs in them."""
