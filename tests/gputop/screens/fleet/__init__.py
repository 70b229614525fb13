"""Tests of the screen Fleet."""
