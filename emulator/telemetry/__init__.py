"""What other tools watch the emulator by: metrics and spans; it imports worlds and what lies below, none of it before
it is asked for.
"""
