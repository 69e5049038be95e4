"""The prompt: its text, history, completion and what is pasted into it."""
