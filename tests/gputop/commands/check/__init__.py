"""Tests of gputop/commands/check."""
