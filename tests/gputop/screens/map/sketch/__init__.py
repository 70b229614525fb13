"""Tests of gputop/screens/map/sketch."""
