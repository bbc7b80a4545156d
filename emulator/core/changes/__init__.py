"""What each fact changes in the contents of a world; nothing is decided here, and it imports no rules."""
