"""The agent for editors: conversations in the Agent Client Protocol, over standard input and output."""
