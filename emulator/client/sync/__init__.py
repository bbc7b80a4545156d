"""The Python API for code that does not await, made from `client.aio`; it imports what `emulator.client` may."""
