"""The tools of MCP servers: each server has one live session, shared by every agent of the process."""
