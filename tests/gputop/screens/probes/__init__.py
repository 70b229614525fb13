"""Tests of the screen Probes."""
