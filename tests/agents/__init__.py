"""What coding agents get: the MCP server with its tools, the skill file, the texts to read."""
