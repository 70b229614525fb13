"""Tests of topology/expectation."""
