"""Tests of probes/catalog/launch."""
