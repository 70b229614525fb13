"""Tests of topology/recorded/formats/amd/smi."""
