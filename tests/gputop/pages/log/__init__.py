"""Tests of gputop/pages/log."""
