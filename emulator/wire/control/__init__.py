"""The control API's requests and answers as text; it imports what `emulator.wire` may."""
