"""The MCP server, which offers vibe as tools to other programs, over stdio or HTTP."""
