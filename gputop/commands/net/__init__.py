"""The command `gputop probe net`."""
