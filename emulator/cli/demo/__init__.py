"""The demonstration: a week of deliveries in one command; it imports what `emulator.cli` may."""
