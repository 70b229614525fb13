"""Tests of gputop."""
