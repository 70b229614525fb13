"""Tests of topology/jobs."""
