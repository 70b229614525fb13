"""Tests of topology/logs/reading."""
