"""Tests of topology/hardware."""
