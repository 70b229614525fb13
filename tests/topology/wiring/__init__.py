"""Tests of topology/wiring."""
