"""Tests of gputop/screens/map."""
