"""The records the rules work on: frozen, compared by value, tuples inside.

It imports only `record` of core. Times are `int` milliseconds since the Unix epoch and end in `_ms`;
durations too. Header collections are tuples of `(name, value)` in the order the client gave them.
"""
