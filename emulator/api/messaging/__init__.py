"""The endpoints of the messaging API; it imports what `emulator.api` may."""
