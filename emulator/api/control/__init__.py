"""The endpoints under `/_emulator`; it imports what `emulator.api` may."""
