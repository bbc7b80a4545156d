"""Facts and history in SQLite, the only place of SQL; it may import wire and what lies below it."""
