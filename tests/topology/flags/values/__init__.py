"""Tests of topology/flags/values."""
