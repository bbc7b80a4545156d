"""HTTP text and JSON, read into records and written from them.

It may import core, queries, statistics and resources.
"""
