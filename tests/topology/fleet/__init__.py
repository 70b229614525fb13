"""Tests of topology/fleet."""
