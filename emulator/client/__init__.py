"""The Python API for tests; it may import server and what lies below it."""
