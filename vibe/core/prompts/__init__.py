"""System prompts, as Markdown."""
