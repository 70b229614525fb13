"""Tests of the screen Node."""
