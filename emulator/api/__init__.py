"""The HTTP edge: read a request into a command, submit it, show the reply.

It may import worlds and what lies below it.
"""
