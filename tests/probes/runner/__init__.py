"""Tests of probes/runner."""
