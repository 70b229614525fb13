"""Tests of gputop/pages."""
