"""Tests of topology/sketch."""
