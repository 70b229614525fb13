"""Tests of topology/diagnosis/rules."""
