"""Tests of topology/diagnosis."""
