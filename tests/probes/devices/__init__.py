"""Tests of probes/devices."""
