"""A variable explained for one node."""
