"""Tests of gputop/installation."""
