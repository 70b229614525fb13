"""Tests of topology/sources/linux."""
