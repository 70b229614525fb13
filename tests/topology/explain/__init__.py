"""Tests of topology/explain."""
