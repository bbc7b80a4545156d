"""What a test says of deliveries, and how it fails when that is not so; it imports what `emulator.client` may."""
