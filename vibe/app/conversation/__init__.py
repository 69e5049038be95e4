"""Conversations: one session of an agent, over many prompts."""
