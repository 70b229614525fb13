"""Two predictions of one node, and what changes between them."""
