"""The parts of the MCP client that need no server."""
