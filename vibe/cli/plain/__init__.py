"""The chat line by line, for screen readers and for terminals that can't draw a screen."""
