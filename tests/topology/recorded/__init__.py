"""Tests of topology/recorded."""
