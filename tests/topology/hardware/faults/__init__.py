"""Tests of topology/hardware/faults."""
