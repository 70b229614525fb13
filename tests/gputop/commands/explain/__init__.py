"""Tests of gputop/commands/explain."""
