"""Tests of probes/protocol."""
