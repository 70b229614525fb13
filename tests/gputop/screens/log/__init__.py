"""Tests of the screen Log."""
