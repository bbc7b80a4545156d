"""Applications with workflows of the public clients, which the scenarios start as programs of their own."""
