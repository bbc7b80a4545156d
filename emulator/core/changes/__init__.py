"""What each fact changes in the contents of a world. It decides nothing, and imports of the core what rules import."""
