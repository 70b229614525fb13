"""Tests of the screen Flags."""
