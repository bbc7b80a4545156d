"""One world running: commands in, attempts out, the clock moved.

It may import journal, delivery and what lies below them.
"""
