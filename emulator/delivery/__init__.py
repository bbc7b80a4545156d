"""An attempt leaves: where it goes, how it is signed and sent; it may import wire and what lies below it."""
