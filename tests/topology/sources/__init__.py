"""Tests of topology/sources."""
