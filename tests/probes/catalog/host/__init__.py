"""Tests of probes/catalog/host."""
