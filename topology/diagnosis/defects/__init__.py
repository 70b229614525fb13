"""Known defects of versions: the rows, what must be true for each to matter, and who has them."""
