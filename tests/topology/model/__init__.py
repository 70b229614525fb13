"""Tests of topology/model."""
