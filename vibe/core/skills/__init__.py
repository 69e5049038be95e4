"""Skills: folders with instructions that an agent loads when a task needs them; and slash commands."""
