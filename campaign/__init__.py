"""Faults and attacks from outside: random, long, and repeated by a seed. `python -m campaign --help` tells more.

Every part starts the program as a user does and talks HTTP to it. What a part finds is printed with
the command that repeats it. The default test run leaves the parts out; the nightly one has them.
"""
