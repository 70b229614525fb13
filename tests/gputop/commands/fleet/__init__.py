"""Tests of `gputop fleet`."""
