"""Benchmarks: ratios against a floor or another checkout in the same run, never timed tests.

What is measured runs in processes of its own and is used as its users use it: through the command
line, over HTTP, and through the Python API. Nothing here imports the emulator, so a measurement
means the same for any checkout of the project, whatever it looks like inside. Figures of processes
come from `/proc`, that is from Linux.
"""
