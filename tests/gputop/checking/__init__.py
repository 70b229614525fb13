"""Tests of gputop/checking."""
