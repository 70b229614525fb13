"""Tests of gputop/measuring."""
