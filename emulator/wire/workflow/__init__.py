"""The texts and JSON bodies of workflow calls; it may import the rest of wire, queries and core."""
