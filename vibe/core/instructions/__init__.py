"""Instructions for agents: system prompts, project instructions, memory, and the state of the workspace."""
