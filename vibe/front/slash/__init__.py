"""The slash commands of a conversation, shared by all front ends."""
