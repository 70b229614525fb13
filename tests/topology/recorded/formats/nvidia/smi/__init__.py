"""Tests of topology/recorded/formats/nvidia/smi."""
