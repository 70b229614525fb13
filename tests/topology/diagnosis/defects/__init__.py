"""Tests of topology/diagnosis/defects."""
