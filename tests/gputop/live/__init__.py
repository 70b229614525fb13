"""Tests of gputop/live."""
