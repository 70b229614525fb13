"""`gputop flags`."""
