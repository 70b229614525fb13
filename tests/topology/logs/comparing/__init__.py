"""Tests of topology/logs/comparing."""
