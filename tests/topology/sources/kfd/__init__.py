"""Tests of topology/sources/kfd."""
