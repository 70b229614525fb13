"""Tests of topology/recorded/formats."""
