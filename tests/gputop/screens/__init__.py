"""Tests of gputop/screens."""
