"""The documentation: its pages, its snippets, what is generated of it, and the built book."""
