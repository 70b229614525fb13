"""Tests of topology/recorded/formats/host."""
