"""The Python API: an emulator inside a test's own process, or the way to one that runs elsewhere."""
