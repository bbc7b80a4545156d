"""What the emulator did at a known point: a recorded run, held against what it does now."""
