"""The web page as static files, served by `api` as they are; this package holds no code and it imports nothing."""
