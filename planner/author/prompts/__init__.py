"""The planner's system prompts, as Markdown."""
