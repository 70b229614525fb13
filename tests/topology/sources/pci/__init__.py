"""Tests of topology/sources/pci."""
