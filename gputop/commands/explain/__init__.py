"""`gputop explain`."""
