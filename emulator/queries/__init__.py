"""Answers made of state and history, which change nothing; it may import core."""
