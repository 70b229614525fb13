"""Tests of the screen Pairs."""
