"""Agent profiles: named agents with their model, prompt, tools and rights."""
