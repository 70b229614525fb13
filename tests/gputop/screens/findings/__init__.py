"""Tests of the screen Findings."""
