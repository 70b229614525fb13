"""Tests of topology/hardware/vendors."""
