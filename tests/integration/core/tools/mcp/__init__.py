"""The MCP client against real servers."""
