"""Tests of topology/logs."""
