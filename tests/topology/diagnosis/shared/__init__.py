"""Tests of topology/diagnosis/shared."""
