"""What coding agents get: an MCP server, its tools and resources, and texts to read; it may import client and below.

`server.py` alone imports the package `mcp`, the extra `svc-emulator[mcp]`.
"""
