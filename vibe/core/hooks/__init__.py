"""Hooks: commands of the user and of trusted projects that observe, deny and comment on an agent's tool calls."""
