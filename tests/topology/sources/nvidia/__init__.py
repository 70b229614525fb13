"""Tests of topology/sources/nvidia."""
