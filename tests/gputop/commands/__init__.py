"""Tests of gputop/commands."""
