"""The numbers of usage: what is counted, and what is invented before a world's epoch; it may import core."""
