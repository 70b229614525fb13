"""What changes between two predictions for one node."""
