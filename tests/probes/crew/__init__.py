"""Tests of probes/crew."""
