"""The basis of every run: settings, models, tools, sandbox, events and requests."""
