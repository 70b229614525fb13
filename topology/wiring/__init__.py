"""The graph of a node, its paths, and its letters."""
