"""The rules of the service: commands in, facts out; it imports nothing else of the emulator."""
