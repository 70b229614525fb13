"""Tests of topology/logs/report."""
