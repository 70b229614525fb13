"""Tests of topology/flags/catalogue."""
