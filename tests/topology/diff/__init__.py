"""Tests of topology/diff."""
