"""Tests of the house itself: who may import whom, what is packaged, what the registries name."""
