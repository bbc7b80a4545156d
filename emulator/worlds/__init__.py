"""Many isolated worlds in one process; it may import fixtures, engine and what lies below them."""
