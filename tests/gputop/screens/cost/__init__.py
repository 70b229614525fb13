"""Tests of the screen Cost."""
