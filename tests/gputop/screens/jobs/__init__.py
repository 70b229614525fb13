"""Tests of the screen Jobs."""
