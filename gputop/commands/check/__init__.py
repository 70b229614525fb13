"""`gputop check`."""
