"""What differs between two readings, of one node or of two, and what that means."""
