"""The book: Markdown, the theme that Sphinx makes it with, and what is generated of it."""
