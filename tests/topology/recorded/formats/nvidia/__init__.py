"""Tests of topology/recorded/formats/nvidia."""
