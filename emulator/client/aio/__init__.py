"""The Python API for asyncio and trio; it imports what `emulator.client` may."""
