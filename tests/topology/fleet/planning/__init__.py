"""Tests of the planning of rounds."""
