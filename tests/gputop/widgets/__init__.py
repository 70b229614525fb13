"""Tests of gputop/widgets."""
