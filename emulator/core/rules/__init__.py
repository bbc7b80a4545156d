"""The decisions, one family a module; it imports only the records, the state's view and the languages of core."""
