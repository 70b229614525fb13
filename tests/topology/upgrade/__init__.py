"""Tests of topology/upgrade."""
