"""`gputop probe`."""
