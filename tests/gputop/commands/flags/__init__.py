"""Tests of gputop/commands/flags."""
