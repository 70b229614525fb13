"""Tests of topology/diagnosis/mechanism."""
