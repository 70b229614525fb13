"""Tests of topology/recorded/formats/network."""
