"""The OpenAPI documents: reading, showing, comparing and checking against them.

It may import wire and what wire may.
"""
