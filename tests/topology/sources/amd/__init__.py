"""Tests of topology/sources/amd."""
