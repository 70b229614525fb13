"""`gputop jobs`."""
