"""Tests of probes/catalog/p2p."""
