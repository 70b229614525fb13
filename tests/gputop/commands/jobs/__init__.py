"""Tests of gputop/commands/jobs."""
