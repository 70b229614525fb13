"""Tests of topology/sources/amdgpu."""
