"""The emulator's own API under `/_emulator`, one file a subject; it may import api, worlds and what lies below them."""
