"""Tests of topology/sources/files."""
