"""Tests of gputop/commands/probe."""
