"""Expectations of deliveries and the texts of their failures; it imports what `emulator.client` may."""
