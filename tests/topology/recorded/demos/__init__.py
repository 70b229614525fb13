"""Tests of topology/recorded/demos."""
