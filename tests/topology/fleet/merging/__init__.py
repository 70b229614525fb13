"""Tests of topology/fleet/merging."""
