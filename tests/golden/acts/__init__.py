"""The acts of the scripted run, one module per subject; each has worlds of its own."""
