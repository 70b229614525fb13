"""`gputop fleet`: many nodes."""
