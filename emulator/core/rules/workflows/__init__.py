"""What belongs to workflow runs is decided here; it may import the rest of the core and the rules outside."""
