"""What the emulator did at a known point: a recorded run and recorded databases, held against what it does now."""
