"""Tests of topology/flags/what_if."""
