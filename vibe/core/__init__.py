"""The engine: one agent with its tools, its model and its session."""
