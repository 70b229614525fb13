"""Tests of probes/catalog."""
