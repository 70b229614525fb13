"""Tests of topology/metrics."""
