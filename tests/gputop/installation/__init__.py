"""Tests of gputop/terminal."""
