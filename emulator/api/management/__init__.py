"""The endpoints of the management API; it imports what `emulator.api` may."""
